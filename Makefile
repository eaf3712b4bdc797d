# Thin wrappers over CMake and Ninja: `cmake --preset release && cmake --build build` works without this file.
#
#   make demo      compare eleven attention mechanisms on a small text; writes build/demo/report.html
#   make test      build and run every test
#   make core      build and run the tests that a new compiler or distribution is most likely to break
#   make test-python  the Python package, and exported models beside transformers; sets up PyTorch in PYTHON_ENV
#   make build     the optimised program, build/crosshead, and the libraries
#   make wheel     a self-contained wheel of package, libraries and program, build/wheel/*.whl: pip installs it on any Linux
#   make bench     measure speed against the machine's own limits
#   make sanitize  the tests again under AddressSanitizer and UndefinedBehaviorSanitizer
#   make fuzz      every fuzz target for FUZZ_SECONDS seconds, JOBS targets at a time
#   make format    apply clang-format; format-check changes nothing
#   make lint      clang-tidy
#   make install   into PREFIX (and DESTDIR)
#   make deb       Debian packages in build/deb, checked by lintian
#   make deps      install the Debian packages that building and testing need
#
# Warnings are errors after `cmake --preset develop` (and in CI); until build/ is removed.

PREFIX ?= /usr/local
demo_mechanisms = mha,gqa,mla,egmla,mfa,mfa_kr,mea,kha-mlp,masa-qkvo,egmla:4,egmla:2
FUZZ_SECONDS ?= 60
PYTHON_ENV ?= build/python
JOBS ?= $(shell nproc)
sources = find include src tests bench examples -name '*.[ch]' -print0

.PHONY: build build-deps test-programs demo test core test-python wheel bench sanitize fuzz format format-check lint install deb deps clean
build: build-deps
	cmake --preset release
	cmake --build build -j $(JOBS)

test-programs: deps
	cmake --preset release
	cmake --build build -j $(JOBS) --target all_tests

demo: build
	./build/crosshead compare --data data/tinyshakespeare.txt --mechanisms $(demo_mechanisms) --params 100k \
	  --tokens 150k --seeds 5 --out build/demo

test: test-programs
	scripts/run_tests.sh build $(JOBS)

core:
	scripts/deps.sh build test
	cmake --preset release
	cmake --build build -j $(JOBS) --target core_tests
	scripts/run_tests.sh build $(JOBS) -L core

test-python: build
	scripts/python_tests.sh $(PYTHON_ENV) $(CURDIR)/build $(JOBS)

wheel: build
	scripts/wheel.sh build build/wheel

bench: build
	cmake --build build -j $(JOBS) --target benchmarks
	./build/bench/bench_kernels
	./build/bench/bench_gemm
	./build/bench/bench_attend
	./build/bench/bench_gated
	./build/crosshead bench bench/configs/shape-a.json --train --batch 16 --seq 256
	./build/crosshead bench bench/configs/shape-b.json --depth 0,16384 --train --batch 4 --seq 512

sanitize: deps
	cmake --preset sanitize
	cmake --build build-sanitize -j $(JOBS) --target all_tests
	scripts/run_tests.sh build-sanitize $(JOBS)

fuzz:
	scripts/deps.sh build fuzz
	cmake --preset fuzz
	cmake --build build-fuzz -j $(JOBS) --target fuzz
	scripts/fuzz.sh build-fuzz $(FUZZ_SECONDS) $(JOBS)

format:
	scripts/deps.sh format
	$(sources) | xargs -0 clang-format -i

format-check:
	scripts/deps.sh format
	$(sources) | xargs -0 clang-format --dry-run -Werror

lint:
	scripts/deps.sh build format
	cmake --preset release
	scripts/lint.sh build $(JOBS)

install: build
	cmake --install build --prefix $(PREFIX)

deb:
	scripts/deps.sh build deb
	scripts/deb.sh $(JOBS)

build-deps:
	scripts/deps.sh build

deps:
	scripts/deps.sh build test
	@scripts/deps.sh mpi || echo "No MPI: training over several processes is not built."

clean:
	rm -rf build build-*
