# SPDX-License-Identifier: GPL-2.0-or-later
#
# make              build for the Slurm headers found (SLURM_INCLUDE_DIR, pkg-config, /usr/include)
# make install      put it into place: PREFIX=/usr SYSCONFDIR=/etc/slurm SLURM_PLUGIN_DIR=(Slurm's) LOGIN_NODE=no DESTDIR=
# make uninstall    take it away again, with the same variables
# make deb, rpm     packages of what is built, for the same variables, into PACKAGES=target/packages (docs/install.md)
# make dist         the source with all crates, for builds without a network
# make demo         the main job on a real Slurm, in a small root of its own
# make test         everything; make test-unit, test-lint, test-faults, test-abi, test-host, test-live, test-differential, test-fuzz: parts of it
# make test-quick   what catches most, in five minutes, on Slurm 24.11
# make test-long    what is random in it, with far more tries and a new seed
# make container    make demo in a podman container, where there is no Debian 12 (as root)
# make fresh        make demo in a clone on a Debian 12 made for it; tests/fresh COMMAND for another command
# make bench        numbers, as ratios in one run (docs/dev/performance.md)
# make simulate     ways to choose a GPU compared on the same jobs (docs/dev/simulation.md)
# make lab-up, lab-shell, lab-down   a cluster to try things in: RELEASE=24.11 CGROUP=v1 (if not, v1 or v2, as the machine has) CONF=docs/examples/surf
# make clean        what was built; make distclean: the cached roots too

RELEASES ?= 22.05 24.11 26.05
RELEASE  ?= 24.11
CGROUP   ?=
CONF     ?= docs/examples/surf
LAB      := tests/lab/lab
BOX      ?= try

.PHONY: all install uninstall deb rpm dist setup demo test test-unit test-lint test-faults test-abi test-host test-live test-differential test-fuzz \
	test-quick test-long fresh container bench simulate \
	lab-up lab-shell lab-down clean distclean

all:
	@packaging/headers >/dev/null
	@packaging/programs
	packaging/cargo build --locked --release -p job_submit_gpushare -p spank_gpushare -p spank_gpushare_prolog
	@echo "built: target/release/{libjob_submit_gpushare.so,libspank_gpushare.so,libspank_gpushare_prolog.so,gpushare,gpushare-prolog,gpushare-epilog,gpushare-nvml}"

# Not built here: that may want another user's cargo.
install:
	@packaging/install

uninstall:
	@packaging/install --uninstall

deb:
	@packaging/deb/build

rpm:
	@packaging/rpm/build

dist:
	@packaging/dist

setup:
	@tests/setup

demo:
	@tests/setup demo
	@tests/demo $(RELEASE)

test: setup
	@tests/run $(RELEASES)

test-unit: setup
	@tests/run --only unit $(RELEASES)

test-lint: setup
	@tests/run --only lint $(RELEASES)

test-faults: setup
	@tests/run --only faults $(RELEASES)

test-abi: setup
	@tests/run --only abi $(RELEASES)

test-host: setup
	@tests/run --only host $(RELEASES)

test-live: setup
	@tests/run --only live $(RELEASES)

test-differential: setup
	@tests/run --only differential $(RELEASES)

test-fuzz: setup
	@tests/run --only fuzz $(RELEASES)

test-quick: setup
	@tests/run --only quick $(RELEASE)

test-long: setup
	@tests/run --only long $(RELEASES)

fresh: setup
	@tests/fresh make demo

container:
	@tests/container/run make demo

bench: setup
	@tests/build $(RELEASE)
	@tests/bench/run --release $(RELEASE)
	@tests/bench/daemons 60
	@cargo run --quiet --locked --release -p gpushare-node --example placing
	@tests/host/speed $(RELEASE)
	@tests/bench/plan --release $(RELEASE)

simulate:
	@tests/bench/simulate

lab-up: setup
	@tests/build $(RELEASE)
	@$(LAB) up $(BOX) --release $(RELEASE) $(if $(CGROUP),--cgroup $(CGROUP)) --conf $(CONF)

lab-shell:
	@$(LAB) exec $(BOX) -- bash

lab-down:
	@$(LAB) down $(BOX)

clean:
	cargo clean

distclean: clean
	$(LAB) purge
