# The number of versions of the package that are installed now.
case $1 in
1) put_package new ;;
*) put_package ;;
esac
