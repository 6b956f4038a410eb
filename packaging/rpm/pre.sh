# Earlier packages had gpushare.conf as a file of theirs, and rpm takes it away with them, or renames it.
conf=$SYSCONFDIR/gpushare.conf
kept=$conf.$HOSTNAME
(($1 == 1)) || [[ ! -f $conf ]] || ln -f "$conf" "$kept" 2>/dev/null || cp -a "$conf" "$kept" ||
    echo "gpushare: $kept can't be written: if this upgrade takes $conf away, put it back"
