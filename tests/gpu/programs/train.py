# SPDX-License-Identifier: GPL-2.0-or-later
"""train.py NAME ORDERS RESULTS [DEVICE]: a training job that does what a file of orders says, when it says so.

The network is a ResNet-18; images are random and stay on the GPU, so that disks and loaders play no part. Once its
first steps are done it writes RESULTS/NAME.0.json and waits for ORDERS, a file that is replaced as a whole:

    {"number": 3, "begin": 81.5, "end": 87.5, "bf16": true, "batch": 32, "do": {"alice1": "train", "bob1": "fault"}}

It obeys each number once and answers with RESULTS/NAME.NUMBER.json. begin and end are times of CLOCK_MONOTONIC.

    train       as many steps as fit; the time of each in ms
    allocate    takes "mib" MiB at once
    raise       the same in a new program of this job that has raised its own limits
    fault       writes to an address that isn't there
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn

import cuda

NAME, ORDERS, RESULTS = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
DEVICE = sys.argv[4] if len(sys.argv) > 4 else "cuda"
BATCH, WIDTH, CLASSES = 32, 224, 1000
LONGEST = 300  # A job whose test has gone ends too.


class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
        )
        self.shortcut = nn.Sequential()
        if stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        self.end = nn.ReLU()

    def forward(self, x):
        return self.end(self.way(x) + self.shortcut(x))


def network():
    layers, before = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for after in (64, 128, 256, 512):
        layers += [Block(before, after, 1 if after == 64 else 2), Block(after, after, 1)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, CLASSES))


class Training:
    def __init__(self):
        self.network = network().to(DEVICE)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.01, momentum=0.9)
        self.images = torch.randn(BATCH, 3, WIDTH, WIDTH, device=DEVICE)
        self.labels = torch.randint(0, CLASSES, (BATCH,), device=DEVICE)
        self.wait = torch.cuda.synchronize if DEVICE == "cuda" else lambda: None

    def step(self, bf16):
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=bf16):
            loss = nn.functional.cross_entropy(self.network(self.images), self.labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.wait()

    def train(self, order):
        while time.monotonic() < order["begin"]:
            time.sleep(0.001)
        times, before = [], time.monotonic()
        while before < order["end"]:
            self.step(order["bf16"])
            after = time.monotonic()
            times.append(round((after - before) * 1000, 2))
            before = after
        return {"images": BATCH * len(times), "seconds": before - order["begin"], "ms": times}

    def allocate(self, order):
        try:
            torch.empty(order["mib"] << 20, dtype=torch.uint8, device=DEVICE)
        except torch.cuda.OutOfMemoryError as error:
            return {"refused": str(error).splitlines()[0]}
        return {"refused": None}

    def raise_(self, order):
        limits = {"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": "0=1000000M", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "100"}
        def said(*arguments):
            command = [sys.executable, cuda.__file__, *arguments]
            done = subprocess.run(command, env=os.environ | limits, capture_output=True, text=True, timeout=60)
            return json.loads(done.stdout)
        return {"allocate": said("allocate", str(order["mib"])), "look": said("look")}

    def fault(self, order):
        while time.monotonic() < order["begin"]:
            time.sleep(0.001)
        return cuda.Cuda().fault()


def answer(number, said):
    # A name without ".json" until it is whole.
    path = RESULTS / f"{NAME}.{number}"
    path.write_text(json.dumps(said))
    path.rename(f"{path}.json")


def main():
    begin = time.monotonic()
    torch.zeros(1, device=DEVICE)
    context = time.monotonic()
    training = Training()
    for bf16 in (False, True, False, True):
        training.step(bf16)
    about = torch.cuda.get_device_properties(0) if DEVICE == "cuda" else None
    answer(0, {
        "pid": os.getpid(), "context_s": round(context - begin, 2), "ready_s": round(time.monotonic() - begin, 2),
        "multiprocessors": about and about.multi_processor_count,
        "mps": os.environ.get("CUDA_MPS_PIPE_DIRECTORY"),
    })
    done = 0
    while time.monotonic() < begin + LONGEST:
        try:
            order = json.loads(ORDERS.read_text())
        except (OSError, ValueError):
            order = {"number": 0}
        what = order.get("do", {}).get(NAME)
        if order["number"] <= done or not what:
            time.sleep(0.005)
            continue
        done = order["number"]
        try:
            said = getattr(training, {"raise": "raise_"}.get(what, what))(order)
        except (RuntimeError, cuda.CudaError) as error:
            # After an error of the GPU's a context can't be used any more.
            answer(done, {"error": (str(error) or repr(error)).splitlines()[0]})
            sys.exit(1)
        answer(done, said)


main()
