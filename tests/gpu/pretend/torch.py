# SPDX-License-Identifier: GPL-2.0-or-later
"""A stand-in for PyTorch for `tests/gpu/one --pretend`: as much of it as tests/gpu/programs calls, over
tests/fakes/cuda.c. Layers do nothing; a backward pass is one kernel."""

import ctypes
import sys
import types

bfloat16, uint8 = "bfloat16", "uint8"
_driver = ctypes.CDLL("libcuda.so.1")
_has_context = False


class OutOfMemoryError(RuntimeError):
    pass


class _Anything:
    """A tensor, a layer, a loss, an optimizer: whatever is done with it gives one again."""

    def __init__(self, *_, **__):
        pass

    def __call__(self, *arguments):
        return self.forward(*arguments) if hasattr(self, "forward") else self

    def __add__(self, _):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def to(self, _):
        _needs_context()
        return self

    def parameters(self):
        return []

    def zero_grad(self, set_to_none):
        pass

    def backward(self):
        pass

    def step(self):
        pass


def _needs_context():
    global _has_context
    result = 0 if _has_context else _driver.cuInit(0) or _driver.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0)
    if result:
        raise RuntimeError(f"No CUDA GPUs are available ({result})")
    _has_context = True


def _tensor(*_, device, **__):
    _needs_context()
    return _Anything()


def empty(size, dtype, device):
    _needs_context()
    if _driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(size)):
        raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size >> 20} MiB")
    return _Anything()


def _synchronize():
    result = _driver.cuCtxSynchronize()
    if result:
        raise RuntimeError(f"CUDA error {result}")


def _properties(_):
    count = ctypes.c_int()
    _driver.cuDeviceGetAttribute(ctypes.byref(count), 16, 0)
    return types.SimpleNamespace(multi_processor_count=count.value)


def _is_available():
    return _driver.cuInit(0) == 0


def _module(name, **content):
    module = types.ModuleType(name)
    vars(module).update(content)
    sys.modules[name] = module
    return module


_LAYERS = "Module Sequential Conv2d BatchNorm2d ReLU MaxPool2d AdaptiveAvgPool2d Flatten Linear".split()
functional = _module("torch.nn.functional", cross_entropy=lambda *_: _Anything())
nn = _module("torch.nn", functional=functional, **{name: type(name, (_Anything,), {}) for name in _LAYERS})
optim = _module("torch.optim", SGD=_Anything)
cuda = _module(
    "torch.cuda", is_available=_is_available, device_count=lambda: int(_is_available()), synchronize=_synchronize,
    get_device_properties=_properties, OutOfMemoryError=OutOfMemoryError,
)
autocast = _Anything
zeros = randn = randint = _tensor
