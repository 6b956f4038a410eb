# SPDX-License-Identifier: GPL-2.0-or-later
#
# Earlier packages had gpushare.conf as a conffile. If dpkg went on calling it one, a purge would delete the
# administrator's file; dpkg-maintscript-helper would move it, and nodes read it for each job. dpkg forgets a conffile
# that it doesn't find when it has unpacked the next version. So until then it looks for it in another place.

conf=$SYSCONFDIR/gpushare.conf
elsewhere=$SYSCONFDIR/.gpushare.conf.dpkg-none

hide_settings() {
    # A diversion of the site's own stays.
    [[ -z $(dpkg-divert --listpackage "$conf") ]] || return 0
    ! dpkg-query -W -f '${Conffiles}\n' gpushare 2>/dev/null | grep -qF " $conf " ||
        dpkg-divert --quiet --local --no-rename --divert "$elsewhere" --add "$conf"
}

show_settings() {
    [[ $(dpkg-divert --truename "$conf") != "$elsewhere" ]] ||
        dpkg-divert --quiet --local --no-rename --divert "$elsewhere" --remove "$conf"
}
