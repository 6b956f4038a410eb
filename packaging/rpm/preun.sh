# How many versions of the package will be left.
(($1 == 0)) || exit 0
may_go
take_package
