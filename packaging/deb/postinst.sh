[[ $PACKAGE != gpushare ]] || show_settings
# configure OLD-VERSION: a new installation has no old version.
case "$1 ${2:-}" in
"configure " | "abort-remove in-favour") put_package new ;;
configure*) put_package ;;
esac
