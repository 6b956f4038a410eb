# install OLD-VERSION: its settings are left, or upgrade OLD-VERSION.
case "$1 ${2:-}" in
"install "?* | "upgrade "?*) hide_settings ;;
esac
