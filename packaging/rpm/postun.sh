# The number of versions of the package that are left.
(($1 == 0)) || exit 0
[[ $PACKAGE != gpushare ]] || reload_units
take_rest
