# SPDX-License-Identifier: GPL-2.0-or-later
"""cuda.py look|hold SECONDS MIB|allocate MIB...|fault: what CUDA says to a program that has only the driver's library.

Prints one line of JSON and ends with 0. Needs no PyTorch and no compiler.

    look           {"init": 0, "ms": 210.4, "count": 1, "multiprocessors": 16}
    hold           takes so much memory, says so, and computes for so many seconds: {"steps": 117, "error": 0}
    allocate       {"4096": 0, "16384": 2}: cuMemAlloc's result for each, freed again
    fault          {"launch": 0, "sync": 700}: a kernel that writes to an address that isn't there
"""

import ctypes
import json
import sys
import time

MULTIPROCESSORS = 16
# The driver compiles it; a driver that no longer takes the first target takes the next.
TARGETS = ("6.4", "sm_52"), ("6.4", "sm_75"), ("7.8", "sm_90")
WRITE_TO_NOWHERE = """.version {}
.target {}
.address_size 64
.visible .entry nowhere() {{
    .reg .u64 %address;
    .reg .u32 %value;
    mov.u64 %address, 16;
    mov.u32 %value, 1;
    st.global.u32 [%address], %value;
    ret;
}}
"""


class CudaError(Exception):
    """A call's name and CUresult."""


class Cuda:
    """libcuda, and a context on the first GPU that it shows."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def result(self, name, *arguments):
        return getattr(self.library, name)(*arguments)

    def call(self, name, *arguments):
        result = self.result(name, *arguments)
        if result:
            raise CudaError(name, result)

    def number(self, name, *arguments):
        value = ctypes.c_int(0)
        self.call(name, ctypes.byref(value), *arguments)
        return value.value

    def context(self):
        device, context = self.number("cuDeviceGet", 0), ctypes.c_void_p()
        self.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)

    def allocate(self, mib):
        """The result, and the memory."""
        memory = ctypes.c_uint64(0)
        return self.result("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(mib << 20)), memory

    def fault(self):
        """Needs a context of this thread; it is lost afterwards."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        for target in TARGETS:
            text = WRITE_TO_NOWHERE.format(*target).encode()
            result = self.result("cuModuleLoadData", ctypes.byref(module), text)
            if result == 0:
                break
        else:
            raise CudaError("cuModuleLoadData", result)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"nowhere")
        launch = self.result("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, None, None)
        return {"launch": launch, "sync": self.result("cuCtxSynchronize")}


def look():
    cuda, begin = Cuda(), time.monotonic()
    said = {"init": cuda.result("cuInit", 0), "ms": round((time.monotonic() - begin) * 1000, 1)}
    if said["init"] == 0:
        said["count"] = cuda.number("cuDeviceGetCount")
        said["multiprocessors"] = cuda.number("cuDeviceGetAttribute", MULTIPROCESSORS, cuda.number("cuDeviceGet", 0))
        said["version"] = cuda.number("cuDriverGetVersion")
    return said


def ready():
    cuda = Cuda()
    cuda.call("cuInit", 0)
    cuda.context()
    return cuda


def hold(seconds, mib):
    cuda = ready()
    result, memory = cuda.allocate(int(mib))
    print(json.dumps({"allocated": result}), flush=True)
    steps, end = 0, time.monotonic() + float(seconds)
    while time.monotonic() < end:
        result = cuda.result("cuMemsetD8_v2", memory, 1, ctypes.c_size_t(1 << 20)) or cuda.result("cuCtxSynchronize")
        if result:
            break
        steps += 1
        time.sleep(0.01)
    return {"steps": steps, "error": result}


def allocate(*sizes):
    cuda, said = ready(), {}
    for mib in sizes:
        said[mib], memory = cuda.allocate(int(mib))
        if said[mib] == 0:
            cuda.call("cuMemFree_v2", memory)
    return said


def main():
    what, *arguments = sys.argv[1:]
    try:
        said = {"look": look, "hold": hold, "allocate": allocate, "fault": lambda: ready().fault()}[what](*arguments)
    except CudaError as error:
        said = {"call": error.args[0], "error": error.args[1]}
    except OSError as error:
        said = {"call": "dlopen", "error": str(error)}
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
