# SPDX-License-Identifier: MIT
# Shortcuts; CMake and its presets do the work. `make` alone lists them.
PRESET ?= release
BUILD := build/$(PRESET)

# Debian packages: to build, to test, to format.
PACKAGES := g++ cmake ninja-build ccache pkg-config \
            libfmt-dev libhwy-dev libopenblas-dev librandom123-dev zlib1g-dev libpng-dev libjpeg-dev \
            nlohmann-json3-dev libcli11-dev libgtest-dev librapidcheck-dev libmpfr-dev libgmp-dev
TEST_PACKAGES := chromium fonts-dejavu-core openmpi-bin  # a browser that opens the report, ranks of a distributed program
PYTHON_PACKAGES := python3 python3-venv python3-dev
FORMAT_PACKAGES := clang-format
FUZZ_PACKAGES := clang libclang-rt-dev
LINT_PACKAGES := clang-tidy cppcheck
DEB_PACKAGES := python3 dpkg-dev man-db
BENCH_PACKAGES := python3 python3-venv binutils

RUN := train --model cnn --data digits --train-count 30000 --test-count 5000 --epochs 6 --out out/digits --overwrite

# Installs those of the packages $(1) that are missing, if any.
define install_missing
	@command -v dpkg-query >/dev/null || { echo "Not a Debian system; please install these packages: $(1)"; exit 0; }; \
	missing=; for p in $(1); do \
	  dpkg-query -W -f='$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; \
	done; \
	if [ -n "$$missing" ]; then \
	  sudo=; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  echo "Installing the missing packages:$$missing"; \
	  $$sudo apt-get update -qq && \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; \
	fi
endef

# The Python package is built and tested in its own virtual environment.
VENV := build/venv
PYTHON_OPTIONS := $(if $(filter release debug asan tsan,$(PRESET)),-DEBB_BUILD_PYTHON=ON -DPython_EXECUTABLE=$(CURDIR)/$(VENV)/bin/python)

# Test programs that run on a GPU: kernels and library calls first, then the others.
CUDA_TESTS := cuda table losses losses_kernels ops engine nn optim network library

.PHONY: help run install test test-emulated test-cuda test-threads fuzz exhaustive load coverage parity array-api wheel deb site bench bench-cuda bench-parts \
        bench-breadth bench-distributed lint format clean packages configure python-package

help:
	@echo "make run      build the program ebb and train a convolutional network on drawn digits, about a minute"
	@echo "make install PREFIX=~/ebb   build the library and the program, and install them there (/usr/local unless given)"
	@echo "make test     build everything and run the tests"
	@echo "make test-emulated   the part of make test that walks over operations and losses on an emulated GPU"
	@echo "make test-cuda   the tests on the first GPU, then under compute-sanitizer (TESTS=cuda: some of them)"
	@echo "make test-threads PRESET=tsan   the tests of threads that share tensors, under the thread sanitizer (ROUNDS=200000: longer)"
	@echo "make fuzz TIME=60   run each fuzzer for that many seconds (RUNS=1000000: inputs; TARGET=csv: one; JOBS=2), under the sanitizers"
	@echo "make exhaustive     measure the functions on every number of f32, f16 and bf16 (FUNCTIONS='exp log': some)"
	@echo "make load           100,000 training steps, exchanges, plans and threads: fails if memory grows (SCALE=0.01: fewer)"
	@echo "make coverage       count the lines of src/ that the tests execute; fails below 90 %"
	@echo "make parity   compare every operation and loss with PyTorch, from Python (needs PyTorch)"
	@echo "make array-api CHECKOUT=FOLDER   the array API standard's own tests, from a clone of data-apis/array-api-tests"
	@echo "make wheel    a manylinux wheel in build/wheel, tested in an environment without Ebb's Debian packages"
	@echo "make deb      a Debian package in build/deb-package: library, headers, program, manual page, completions"
	@echo "make site     the documentation as a static site in build/site"
	@echo "make bench    compare with PyTorch, JAX and MLX (SUITE=losses: one suite, QUICK=1: the large rows only)"
	@echo "make bench-cuda    compare with PyTorch, Liger, CCE and QuACK on a GPU (SUITE=rows: one suite, QUICK=1: smaller arrays,"
	@echo "                   BUDGET=600: no new row after ten minutes, MAX_AUTOTUNE=1: torch.compile in that mode, too)"
	@echo "make bench-breadth   every function at drawn sizes beside eager PyTorch (DEVICE=cuda, SEED=2, BUDGET=600, THREADS=1, ONLY=topk)"
	@echo "make bench-distributed   2 ranks of one thread against 1 rank of two, beside PyTorch's DDP"
	@echo "make bench-parts   measure sweeps, vector math, products, networks and losses by themselves (PART=losses: one)"
	@echo "make lint     constants, cppcheck and clang-tidy on the sources"
	@echo "make format   clang-format the sources"
	@echo "make clean    remove what was built"
	@echo "PRESET=release, debug, asan or tsan picks the build, e.g. make test PRESET=asan"

packages:
	$(call install_missing,$(PACKAGES))

configure: packages
	@[ -f $(BUILD)/build.ninja ] || cmake --preset $(PRESET)

run: configure
	@cmake --build $(BUILD) --target ebb_program
	@echo "+ ebb $(RUN)"
	@$(BUILD)/tools/ebb/ebb $(RUN)

PREFIX ?= /usr/local
install: configure
	@cmake --build $(BUILD) --target ebb ebb_shared ebb_program
	@cmake --install $(BUILD) --prefix $(PREFIX)

$(VENV)/complete: python/requirements.txt
	$(call install_missing,$(PYTHON_PACKAGES))
	@python3 -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r python/requirements.txt
	@touch $@

# NVRTC compiles kernels for GPUs that this machine need not have. Where it cannot be installed, its tests are skipped.
$(VENV)/nvrtc: $(VENV)/complete
	@ls /usr/local/cuda/lib64/libnvrtc.so.* >/dev/null 2>&1 || ldconfig -p | grep -q libnvrtc || \
	  $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --retries 0 --timeout 20 nvidia-cuda-nvrtc \
	  || { echo "No NVRTC: pip cannot install nvidia-cuda-nvrtc"; exit 0; } && touch $@

test: configure $(if $(PYTHON_OPTIONS),$(VENV)/complete $(VENV)/nvrtc)
	$(call install_missing,$(TEST_PACKAGES))
	@$(if $(PYTHON_OPTIONS),grep -q EBB_BUILD_PYTHON:BOOL=ON $(BUILD)/CMakeCache.txt || cmake --preset $(PRESET) $(PYTHON_OPTIONS))
	@cmake --build $(BUILD)
	@skipped=$(CURDIR)/$(BUILD)/skipped_tests.txt; rm -f $$skipped; \
	nvrtc=$$(ls -d $(CURDIR)/$(VENV)/lib/python3*/site-packages/nvidia/*/lib 2>/dev/null | paste -sd: -); \
	cd $(BUILD) && EBB_SKIPPED_TESTS=$$skipped LD_LIBRARY_PATH=$$nvrtc$${LD_LIBRARY_PATH:+:$$LD_LIBRARY_PATH} \
	  ctest --output-on-failure -j $$(nproc); code=$$?; \
	$(CURDIR)/tests/report_skipped.sh $$skipped; exit $$code

# The part of `make test` that runs on the emulated GPU.
test-emulated: configure
	@cmake --build $(BUILD) --target test_table test_losses test_ops test_network
	@cd $(BUILD) && ctest --output-on-failure -j $$(nproc) -R 'emulated_gpu|record_kernels'

# On the first GPU, in as many processes as there are cores: see the script. SANITIZE= leaves the sanitizer out.
TESTS ?= $(CUDA_TESTS)
SANITIZE ?= memcheck racecheck initcheck synccheck
test-cuda: configure
	@cmake --build $(BUILD) --target ebb_program $(addprefix test_,$(TESTS))
	@$(BUILD)/tools/ebb/ebb info
	@TESTS="$(TESTS)" SANITIZE="$(SANITIZE)" FILTER='$(FILTER)' tests/run_on_gpu.sh $(BUILD)/tests $(BUILD)/test-cuda

# Tensors shared between threads, for the sanitizers. ROUNDS=200000 repeats each test that often, FILTER='*MayDie*' selects
# some; from Python, too.
test-threads: configure $(if $(PYTHON_OPTIONS),$(VENV)/complete)
	@$(if $(PYTHON_OPTIONS),grep -q EBB_BUILD_PYTHON:BOOL=ON $(BUILD)/CMakeCache.txt || cmake --preset $(PRESET) $(PYTHON_OPTIONS))
	@cmake --build $(BUILD) --target test_threads $(if $(PYTHON_OPTIONS),ebb_package)
	@$(if $(ROUNDS),EBB_THREAD_ROUNDS=$(ROUNDS)) $(BUILD)/tests/test_threads $(if $(FILTER),--gtest_filter='$(FILTER)')
	@$(if $(PYTHON_OPTIONS),cd $(BUILD) && $(if $(ROUNDS),EBB_THREAD_ROUNDS=$(ROUNDS)) ctest --timeout 36000 -V -R python_threads)

# libFuzzer, each target for TIME seconds or for RUNS inputs, JOBS processes at a time: see fuzz/run.sh. Failing inputs are
# left in build/fuzz/run/found, new ones in build/fuzz/run/corpus.
TIME ?= 60
fuzz: packages
	$(call install_missing,$(FUZZ_PACKAGES))
	@[ -f build/fuzz/build.ninja ] || cmake --preset fuzz
	@cmake --build build/fuzz --target fuzz
	@TIME=$(TIME) $(if $(RUNS),RUNS=$(RUNS)) $(if $(JOBS),JOBS=$(JOBS)) $(if $(TARGET),TARGETS="$(TARGET)") \
	  fuzz/run.sh build/fuzz/fuzz/fuzz build/fuzz/run

exhaustive: configure
	@cmake --build $(BUILD) --target ebb_exhaustive
	@$(BUILD)/tests/ebb_exhaustive $(if $(EVERY),--every $(EVERY)) $(FUNCTIONS)

load: configure $(VENV)/complete
	@grep -q EBB_BUILD_PYTHON:BOOL=ON $(BUILD)/CMakeCache.txt || cmake --preset $(PRESET) $(PYTHON_OPTIONS)
	@cmake --build $(BUILD) --target ebb_package
	@PYTHONPATH=$(BUILD)/python/package $(VENV)/bin/python python/tools/load.py $(if $(SCALE),--scale $(SCALE))

# Lines of src/ that the tests execute, except those from Python. FILES="src/io/npy.cc": also lists lines of these that none does.
coverage: packages
	$(call install_missing,$(TEST_PACKAGES))
	@[ -f build/coverage/build.ninja ] || cmake --preset coverage
	@cmake --build build/coverage
	@find build/coverage -name '*.gcda' -delete
	@cd build/coverage && ctest --output-on-failure -j $$(nproc)
	@python3 tools/coverage.py build/coverage --least 90 $(if $(FILES),--missing $(FILES))

# ONLY='compare test_patch': those programs of python/parity alone.
parity:
	@python3 python/parity/run.py $(ONLY)

python-package: configure $(VENV)/complete
	@grep -q EBB_BUILD_PYTHON:BOOL=ON $(BUILD)/CMakeCache.txt || cmake --preset $(PRESET) $(PYTHON_OPTIONS)
	@cmake --build $(BUILD) --target ebb_package

# CHECKOUT: a clone of github.com/data-apis/array-api-tests with its submodule. EXAMPLES=20: fewer inputs per test.
array-api: python-package
	@$(VENV)/bin/python -m pip install --quiet hypothesis ndindex pytest-json-report
	@PYTHONPATH=$(CURDIR)/$(BUILD)/python/package $(VENV)/bin/python python/tests/array_api/run.py $(CHECKOUT)

wheel: python-package
	@cmake --build $(BUILD) --target ebb_program
	@python/tools/make_wheel.sh $(CURDIR)/$(VENV)/bin/python $(CURDIR) $(CURDIR)/$(BUILD)/python/package $(CURDIR)/$(BUILD)/tools/ebb/ebb build/wheel

# With a build folder of its own: what is installed under /usr has Debian's folders.
deb: packages
	$(call install_missing,$(DEB_PACKAGES))
	@[ -f build/deb/build.ninja ] || cmake --preset release -B build/deb -DCMAKE_INSTALL_PREFIX=/usr -DEBB_PROGRAM_NAME=ebb-grad -DEBB_BUILD_TESTS=OFF -DEBB_BUILD_EXAMPLES=OFF
	@cmake --build build/deb --target ebb ebb_shared ebb_program
	@tools/deb/make_deb.sh build/deb build/deb-package
	@tools/deb/test_deb.sh build/deb-package/ebb-grad_*.deb

site: python-package
	@PYTHONPATH=$(BUILD)/python/package $(VENV)/bin/python tools/site/make_site.py build/site

bench: configure
	$(call install_missing,$(BENCH_PACKAGES))
	@python3 bench/compare.py $(if $(SUITE),--suite $(SUITE)) $(if $(QUICK),--quick)

# On the first GPU: needs a python3 with PyTorch for CUDA that the package was built for, and compares with Liger, CCE and
# QuACK where that has them (pip install liger-kernel cut-cross-entropy quack-kernels).
bench-cuda: python-package
	@cmake --build $(BUILD) --target gpt2
	@PYTHONPATH=$(CURDIR)/$(BUILD)/python/package python3 bench/compare_gpu.py --json $(BUILD)/bench-cuda.json $(if $(SUITE),--suite $(SUITE)) \
	  $(if $(QUICK),--quick) $(if $(BUDGET),--budget $(BUDGET)) $(if $(MAX_AUTOTUNE),--max-autotune)

# Every function at sizes drawn from SEED, beside eager PyTorch; below 1.0 Ebb is behind. On a GPU with DEVICE=cuda: then
# python3 must have PyTorch for CUDA, as for bench-cuda.
DEVICE ?= cpu
SEED ?= 1
bench-breadth: python-package
	@PYTHONPATH=$(CURDIR)/$(BUILD)/python/package $(or $(EBB_BENCH_PYTHON),python3) bench/compare_breadth.py --device $(DEVICE) --seed $(SEED) \
	  --json $(BUILD)/breadth-$(DEVICE)-$(SEED).json --markdown $(BUILD)/breadth-$(DEVICE)-$(SEED).md \
	  $(if $(BUDGET),--budget $(BUDGET)) $(if $(THREADS),--threads $(THREADS)) $(if $(ONLY),--only '$(ONLY)')

bench-distributed: configure
	$(call install_missing,openmpi-bin)
	@python3 bench/distributed.py

# Each part by itself, with Google Benchmark: PART=losses for one of them, FILTER=huber for some of its rows.
bench-parts: packages
	$(call install_missing,libbenchmark-dev)
	@[ -f build/bench/build.ninja ] || cmake --preset release -B build/bench -DEBB_BUILD_BENCH=ON -DEBB_BUILD_TESTS=OFF
	@cmake --build build/bench
	@for part in $(or $(PART),sweep vector_math gemm network losses threads); do \
	  echo; echo "+ bench_$$part"; build/bench/bench/bench_$$part $(if $(FILTER),--benchmark_filter='$(FILTER)') || exit 1; \
	done

# cppcheck and clang-tidy on all of src (TIDY="src/ops/*.cc": clang-tidy on some; all take it 35 minutes of one core).
# The SIMD loops are looked at for AVX2 and what every machine has. Numbers that lose digits without a cast are errors.
SOURCES := $(wildcard src/*/*.cc src/*/*/*.cc)
TIDY ?= $(SOURCES)
TWO_TARGETS := --extra-arg=-DEBB_CPU_SIMD_TARGETS_H_ \
               '--extra-arg=-DHWY_DISABLED_TARGETS=(HWY_SVE|HWY_SVE2|HWY_SVE_256|HWY_SVE2_128|HWY_SSSE3|HWY_SSE4|HWY_AVX3|HWY_AVX3_DL)'
lint: configure
	@python3 -B tools/lint/constants.py
	$(call install_missing,$(LINT_PACKAGES))
	@cppcheck --quiet --std=c++20 --language=c++ --enable=warning,performance,portability --error-exitcode=1 \
	  --suppressions-list=tools/lint/cppcheck.txt -Iinclude -Isrc src
	@printf '%s\n' $(TIDY) | xargs -P $$(nproc) -n 1 clang-tidy --quiet -p $(BUILD) $(TWO_TARGETS)
	@printf '%s\n' $(SOURCES) | xargs -P $$(nproc) -n 1 $(CXX) -std=c++20 -fsyntax-only -Iinclude -Isrc -I$(BUILD)/generated \
	  -Wall -Wextra -Wconversion -Wno-restrict -Werror

format:
	$(call install_missing,$(FORMAT_PACKAGES))
	@git ls-files '*.h' '*.cc' '*.cuh' | xargs clang-format -i

clean:
	rm -rf build
