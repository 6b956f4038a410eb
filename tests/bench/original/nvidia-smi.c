// SPDX-License-Identifier: GPL-2.0-or-later
//
// nvidia-smi: says at once that there are four GPUs, whatever it is asked. NVIDIA's own loads and
// starts NVML first; this one leaves of a script's time only what the script itself takes.
#include <unistd.h>

int main(void) {
    static const char indexes[] = "0\n1\n2\n3\n";
    return write(1, indexes, sizeof indexes - 1) == sizeof indexes - 1 ? 0 : 1;
}
