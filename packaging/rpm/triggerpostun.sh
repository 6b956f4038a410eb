# The earlier package has gone: see gpushare's %pre.
conf=$SYSCONFDIR/gpushare.conf
kept=$conf.$HOSTNAME
if [[ -e $conf ]]; then
    rm -f "$kept"
elif [[ -f $kept ]]; then
    mv "$kept" "$conf"
    ! cmp -s "$conf.rpmsave" "$conf" || rm "$conf.rpmsave"
fi
