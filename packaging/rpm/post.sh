# How many versions of the package are there now.
case $1 in
1) put_package new ;;
*) put_package ;;
esac
