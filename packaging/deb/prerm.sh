case "$1 ${2:-} ${3:-}" in
"remove in-favour gpushare-slurmd") take_package ;; # which has the same
remove*)
    may_go
    take_package
    ;;
esac
