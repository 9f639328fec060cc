# SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
#
# make demo            set up, boot a guest, prove 4 x 997 wake-ups over rxe
# make demo FAULT=lost the same with a fault injected (lost, spurious, late, herd)
# make test            the unit tests and the core ones in guests; minutes, once the image is there;
#                      ARGS="-k poll" runs what it says instead, with pytest's options
# make test-all        run all tests; ARGS goes to pytest
# make test-matrix     the tests in guests on each stock kernel, and a table of them
# make test-wire       two guests on one wire: a dead peer, a pulled cable, loss and delay
# make soak HOURS=2    everything at once, for long: kills, stops, removals, a CPU that goes
# make test-browser    the reports and traces, in a real browser (part of make test-all)
# make test-stress     the tests that take many minutes: 10^5 steps against the model
# make test-debug      the guests' tests on kernels with KASAN, lockdep and more; several hours
# make prove           every interleaving of the wait core's scenarios; ARGS=--list shows them
# make mutants         break the modules in small ways; the tests must notice
# make fuzz            10^6 random calls on /dev/kfabric; ARGS="--kernel debug --seed 1"
# make gallery         classic wait bugs: the verdict must name each of them
# make bench           what a wait costs, against the least that it can cost
# make bench-gate      what operations take, in figures that repeat; a change of 3 % fails
# make documents       the commands of the documents, as they are printed; ARGS="-k guests.md"
# make share           a part of mutants, gallery and fuzz, chosen by the commit
# make check           static checks of everything
# make docs            the documents and the API reference as a site, in build/docs
# make wheels          the tool and its client as Python packages, in build/wheels
# make modules         build the kernel modules for the guest's kernel
# make shell           a shell in a guest
# make setup           only the set-up: Debian packages, Python environment
# make clean           remove build/; the guest image stays in the cache
#
# The set-up is part of every target and skips what is done. It needs root.

KFABRIC := build/venv/bin/kfabric

.PHONY: help setup setup-check demo test test-all test-matrix test-wire soak test-browser test-stress test-debug prove mutants fuzz gallery bench bench-gate documents share check docs wheels modules shell clean

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile | sed 1,2d

# The last line says how to go on, if the set-up is what was asked for.
setup:
	@vm/bootstrap.sh host
	$(if $(filter setup,$(MAKECMDGOALS)),@$(KFABRIC) setup)

setup-check:
	@vm/bootstrap.sh host check

# The demo's time includes the set-up's.
demo: export KFABRIC_BEGAN := $(shell date +%s)
demo: setup
	@$(KFABRIC) demo $(if $(FAULT),--fault $(FAULT)) $(ARGS)

test: setup
	@$(KFABRIC) test $(or $(ARGS),--quick)

test-all: setup
	@$(KFABRIC) test --durations=50 $(ARGS)

test-matrix: setup
	@$(KFABRIC) test --matrix $(ARGS)

test-wire: setup
	@$(KFABRIC) test tests/wire $(ARGS)

soak: setup
	@$(KFABRIC) test --vms 1 -x --verify-wakeups --kfabric-silence 600 \
		-m soak --soak-hours $(or $(HOURS),1) tests/guest/test_soak.py $(ARGS)

test-browser: setup
	@$(KFABRIC) test tests/browser $(ARGS)

test-stress: setup
	@$(KFABRIC) test --vms 1 -m stress $(ARGS)

# Every part runs, whatever becomes of those before.
test-debug: setup
	@status=0; \
	$(KFABRIC) test --kernel debug --coverage tests/guest $(ARGS) || status=$$?; \
	$(KFABRIC) test --kernel kcsan --vms 1 -m stress tests/guest $(ARGS) || status=$$?; \
	$(KFABRIC) test tests/debug || status=$$?; \
	exit $$status

prove: setup
	@$(KFABRIC) prove $(ARGS)

mutants: setup
	@$(KFABRIC) mutants $(ARGS)

fuzz: setup
	@$(KFABRIC) fuzz $(ARGS)

gallery: setup
	@$(KFABRIC) gallery $(ARGS)

bench: setup
	@$(KFABRIC) bench $(ARGS)

bench-gate: setup
	@$(KFABRIC) bench gate $(ARGS)

documents: setup
	@$(KFABRIC) test -m documents tests/vm/test_document_commands.py $(ARGS)

share: setup
	@$(KFABRIC) share $(ARGS)

check: setup-check
	@$(KFABRIC) check $(ARGS)

docs: setup
	@$(KFABRIC) docs $(ARGS)

wheels: setup-check
	@vm/wheels.sh build/venv/bin/python build/wheels
	@ls build/wheels/*.whl

modules: setup
	@$(KFABRIC) modules $(ARGS)

shell: setup
	@$(KFABRIC) shell $(ARGS)

clean:
	rm -rf build
