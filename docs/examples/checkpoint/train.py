# SPDX-License-Identifier: GPL-2.0-or-later
"""A program that Slurm may preempt: on SIGTERM it saves its state and exits with 85; docs/users.md has its script."""
import json, os, signal, sys, time

stop = False

def on_term(number, frame):
    global stop
    stop = True

signal.signal(signal.SIGTERM, on_term)
start = json.load(open("state.json"))["epoch"] if os.path.exists("state.json") else 0
for epoch in range(start, 30):
    time.sleep(0.1)  # an epoch, shorter than the grace period
    with open("state.json.new", "w") as file:
        json.dump({"epoch": epoch + 1}, file)
    os.replace("state.json.new", "state.json")
    if stop:
        sys.exit(85)
