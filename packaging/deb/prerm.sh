case "$1 ${2:-} ${3:-}" in
"remove in-favour gpushare-slurmd") take_package ;; # which has the same
# Also in favor of gpushare-client, which dpkg does after a refused removal.
remove*)
    REMEDY+=$'\n'"$PACKAGE: dpkg remembers the removal, for a later dpkg -i; to cancel it: echo $PACKAGE install | dpkg --set-selections"
    may_go
    take_package
    ;;
esac
