#!/usr/bin/perl
# SPDX-License-Identifier: GPL-2.0-or-later
#
# syslog.pl SOCKET FILE: the syslog of a box without systemd. Decides nothing. Touches SOCKET, to which any process may
# write, and FILE, with one line per message that begins with the time.
use strict;
use warnings;
use POSIX 'strftime';
use Socket;

my ($socket, $file) = @ARGV;
socket my $in, PF_UNIX, SOCK_DGRAM, 0 or die "socket: $!";
bind $in, pack_sockaddr_un($socket) or die "$socket: $!";
chmod 0666, $socket or die "$socket: $!";
open my $out, '>>', $file or die "$file: $!";
$out->autoflush(1);
while (defined recv $in, my $message, 65536, 0) {
    $message =~ s/[\0\n]+\z//;
    $message =~ s/[^\x20-\x7e]/?/g;
    print $out strftime('%Y-%m-%dT%H:%M:%S ', localtime), $message, "\n";
}
