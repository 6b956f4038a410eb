// SPDX-License-Identifier: GPL-2.0-or-later
//
// said: says that it runs; linked statically, for a root directory with nothing else in it.
#include <stdio.h>

int main(void) {
    return puts("in another root") == EOF;
}
