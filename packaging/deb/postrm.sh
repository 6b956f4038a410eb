case $1 in
remove)
    [[ $PACKAGE != gpushare ]] || { show_settings; reload_units; }
    ;;
purge) take_rest ;;
# The unpacking has failed.
abort-install | abort-upgrade) [[ $PACKAGE != gpushare ]] || show_settings ;;
esac
