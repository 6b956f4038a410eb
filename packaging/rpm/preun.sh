# The number of versions of the package that will be left.
(($1 == 0)) || exit 0
may_go
take_package
