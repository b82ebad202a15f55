# Everything starts from a bare Python 3.11 or newer: each target first makes what it needs in .venv.

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# One stamp for what running needs, one for what developing needs: `make up` waits for no test tools.
READY := $(VENV)/.ready
READY_DEV := $(VENV)/.ready-dev
# What is compiled when the checkout is installed: a change in it installs again.
COMPILED := $(wildcard src/rocketeer/*/*.pyx src/rocketeer/*/*/*.pyx src/rocketeer/*/*.pxd src/rocketeer/*/*/*.pxd src/rocketeer/*/*.pxi src/rocketeer/*/*.h)

# Bytecode is kept, whatever the environment says: tests start hundreds of servers, and each would compile all it imports.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: browser help setup up demo test test-spark check sync reference keys format interop interop-smoke apache fuzz worst-requests memory crash-states sanitize bench wheel audit-deps lock clean

help:
	@echo "make up      run a name server and a broker here   (BROKERS=2 STORE=dir ARGS='--port 20911')"
	@echo "make demo    a shop's orders through a cluster and the Spark jobs, in under two minutes"
	@echo "make test    all tests                             (ARGS='-k store')"
	@echo "make test-plain  the tests of all that has compiled modules, without them"
	@echo "make test-spark  all tests of the data pipeline, also those that kill drivers and start clusters"
	@echo "make test-pyspark  source and sink with an older PySpark  (PYSPARK=4.2.1 or 4.1.4)"
	@echo "make test-pythons  the clients' tests with other Pythons that are here  (PYTHONS='3.12 3.13 3.14')"
	@echo "make test-dev  the clients' tests in Python's development mode, every warning an error"
	@echo "make test-s3 the lake in an object store; needs Maven (690 MB of jars)"
	@echo "make browser installs Chromium for the console's tests (Debian, root)"
	@echo "make etcd    installs etcd for groups of brokers (Debian, root)"
	@echo "make check   ruff, mypy --strict, import-linter, imports of compiled sources"
	@echo "make interop clients of other languages against our broker; needs Java and Node"
	@echo "make apache  our clients against Apache's own broker; needs Java"
	@echo "make fuzz    mutated requests of every code against real servers, at every port   (SEED=1 MINUTES=5 FRAMES=n REPLAY=file)"
	@echo "make faults  dead processes, cut links, bad disks and clocks against a group of three: what is left of its promises   (SEED=1 MINUTES=2)"
	@echo "make memory  a million messages through one consumer: its memory stays flat"
	@echo "make fan-out 200,000 sends given to one asyncio.gather: all are stored, in bounded time and memory"
	@echo "make crash-states  what a power failure may leave of a store, and what the broker makes of it  (SEED=1 STATES=2000)"
	@echo "make sanitize  the compiled modules' tests under AddressSanitizer and UBSan; needs gcc"
	@echo "make bench   the load generator                    (ARGS='--help')"
	@echo "make wheel   a wheel for users without a compiler, in dist/"
	@echo "make setup   only the environment in $(VENV)"
	@echo "make sync    write the sync clients' methods from the asyncio ones"
	@echo "make reference  write docs/reference.md from the docstrings"
	@echo "make keys    write docs/keys.md from the table of keys"
	@echo "make format  let ruff put the code in order"
	@echo "make lock    choose dependency versions anew"
	@echo "make clean   remove what the targets above made; never a message"

setup: $(READY_DEV)

$(READY): requirements.lock pyproject.toml setup.py $(COMPILED) tools/make_venv.sh tools/install.sh
	@sh tools/make_venv.sh $(VENV)
	@echo "installing the locked dependencies into $(VENV), and compiling"
	@sh tools/install.sh $(VENV)
	@touch $@

$(READY_DEV): $(READY) requirements-dev.lock
	@echo "installing the locked test tools into $(VENV)"
	@$(PIP) install --quiet --require-hashes -r requirements-dev.lock
	@touch $@

up: $(READY)
	@exec $(BIN)/rocketeer up $(if $(BROKERS),--brokers $(BROKERS)) $(if $(STORE),--store $(STORE)) $(ARGS)

# Spark is among the locked test tools.
demo: $(READY_DEV)
	@exec $(BIN)/rocketeer spark demo $(ARGS)

test: $(READY_DEV)
	@$(BIN)/pytest -n 4 --dist loadfile $(ARGS)

# What a broker without a compiler runs: the plain twins of all compiled modules.
PLAIN := tests/unit/broker tests/unit/store tests/unit/remoting tests/unit/record tests/unit/protocol tests/unit/filter \
	tests/unit/security tests/unit/replication tests/unit/group tests/unit/test_compiled.py tests/golden tests/property \
	tests/client/test_batching.py
.PHONY: test-plain
test-plain: $(READY_DEV)
	@ROCKETEER_PLAIN=1 $(BIN)/pytest -n 2 --dist loadfile $(PLAIN) $(ARGS)

# A browser for the console's tests, from Debian's packages; only root can install it.
browser:
	@command -v chromium chromedriver > /dev/null || { apt-get update -q && apt-get install -y -q --no-install-recommends chromium chromium-driver; }

# An etcd for the tests of groups and for `rocketeer up --replicas`, from Debian's packages; only root can install it.
.PHONY: etcd
etcd:
	@command -v etcd > /dev/null || { apt-get update -q && apt-get install -y -q --no-install-recommends etcd-server; }

# With the tests that start JVMs of their own: killed drivers and executors, clusters, commands. Class data pays for so many.
test-spark: $(READY_DEV)
	@$(BIN)/python -m rocketeer.spark.class_data 2> /dev/null || true
	@$(BIN)/pytest tests/spark tests/unit/spark -m "jvms or not jvms" $(ARGS)

# The same tests with an older PySpark, in an environment that has only that of its own.
.PHONY: test-pyspark
test-pyspark: $(READY_DEV)
	@sh tools/test_pyspark.sh $(VENV) $(or $(PYSPARK),4.2.1) $(ARGS)

# The clients' tests, servers and all, with every other Python that is found; says which are not.
.PHONY: test-pythons
test-pythons:
	@sh tools/test_pythons.sh "$(or $(PYTHONS),3.12 3.13 3.14)" -n 2 --dist worksteal $(ARGS)

# The clients' tests in Python's development mode, where every warning is an error.
.PHONY: test-dev
test-dev: $(READY_DEV)
	@$(BIN)/python -X dev -W error -m pytest tests/client tests/unit/client $(ARGS)

# A lake in an object store: hadoop-aws and its SDK from Maven Central, and a server from PyPI in an environment of its own.
S3_JARS := interop/s3/target/jars
S3_SERVER := build/s3-server
.PHONY: test-s3
test-s3: $(READY_DEV)
	@[ -d $(S3_JARS) ] || mvn -q -B -f interop/s3/pom.xml dependency:copy-dependencies -DexcludeArtifactIds=hadoop-common -DoutputDirectory=$(abspath $(S3_JARS))
	@[ -x $(S3_SERVER)/bin/moto_server ] || { $(BIN)/python -m venv $(S3_SERVER) && $(S3_SERVER)/bin/python -m pip --disable-pip-version-check install --quiet 'moto[server]==5.2.5'; }
	@ROCKETEER_S3_JARS=$(abspath $(S3_JARS)) ROCKETEER_S3_SERVER=$(abspath $(S3_SERVER)/bin/moto_server) $(BIN)/pytest tests/spark/jobs/test_lake_s3.py $(ARGS)

check: $(READY_DEV)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python tools/check_compiled_imports.py
	@$(BIN)/python tools/make_sync.py --check
	@$(BIN)/python tools/make_reference.py --check
	@$(BIN)/python tools/make_keys.py --check

# The sync clients' public methods are written from the asyncio ones.
sync: $(READY_DEV)
	@$(BIN)/python tools/make_sync.py

# docs/reference.md, from the docstrings.
reference: $(READY_DEV)
	@$(BIN)/python tools/make_reference.py

# docs/keys.md: what becomes of every key of RocketMQ.
keys: $(READY_DEV)
	@$(BIN)/python tools/make_keys.py

format: $(READY_DEV)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

interop: $(READY_DEV)
	@bash interop/run.sh $(ARGS)

# The part of `make interop` that is quick and needs no other language's tools; .ci/run calls it.
interop-smoke: $(READY_DEV)
	@bash interop/smoke.sh

# What RocketMQ defines, asked of RocketMQ itself.
apache: $(READY_DEV)
	@bash interop/apache.sh $(ARGS)

# Says its seed; a failure says how to play it again. Mutated requests of every recorded code, from honest to hopeless.
fuzz: $(READY_DEV)
	@PYTHONPATH=tests $(BIN)/python -m support.fuzz $(if $(SEED),--seed $(SEED)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(FRAMES),--frames $(FRAMES)) $(if $(REPLAY),--replay $(REPLAY)) $(ARGS)

# What every entry of the catalogue of worst requests costs other clients, one line each.
worst-requests: $(READY_DEV)
	@PYTHONPATH=tests $(BIN)/python -m support.worst_requests $(ARGS)

# A group of three under every fault; as root also cut links (network namespaces) and full disks (tmpfs).
.PHONY: faults
faults: $(READY_DEV)
	@PYTHONPATH=tests $(BIN)/python -m faults --seed $(or $(SEED),1) --minutes $(or $(MINUTES),2) $(ARGS)

memory: $(READY)
	@$(BIN)/rocketeer bench client --memory --body-bytes 256 $(ARGS)

.PHONY: fan-out
fan-out: $(READY)
	@$(BIN)/rocketeer bench client --gather --body-bytes 256 $(ARGS)

# Records brokers under load, makes legal states of the disk after a power failure, recovers and checks each.
crash-states: $(READY_DEV)
	@PYTHONPATH=tests $(BIN)/python -m crash_states $(if $(SEED),--seed $(SEED)) $(if $(STATES),--states $(STATES)) $(ARGS)

SANITIZED := tests/unit/record tests/unit/store tests/unit/remoting tests/unit/filter tests/unit/broker/test_send_reader.py \
	tests/unit/client/test_shared_send.py tests/unit/broker/test_signed_runs.py tests/unit/security/test_signature.py \
	tests/unit/broker/test_send_runs.py tests/unit/broker/test_send_turns.py tests/unit/broker/test_send_ids.py \
	tests/unit/broker/test_messages.py tests/unit/protocol/test_frame.py tests/unit/bench/test_steps.py \
	tests/golden/test_records.py tests/golden/test_filters.py tests/golden/test_derived_files.py tests/property

sanitize: $(READY_DEV)
	@sh tools/sanitize.sh $(abspath $(BIN))/python $(or $(ARGS),-q $(SANITIZED))

bench: $(READY)
	@$(BIN)/rocketeer bench $(ARGS)

wheel: $(READY_DEV)
	@sh tools/make_wheel.sh $(VENV)

# Asks PyPI's advisories about every locked dependency; needs a registry that has them.
audit-deps: $(READY)
	@$(PIP) install --quiet pip-audit
	@$(BIN)/pip-audit --disable-pip -r requirements-dev.lock

lock: $(READY)
	@$(PIP) install --quiet pip-tools
	@$(BIN)/pip-compile --upgrade --extra build --extra server --extra console --extra groups -o requirements.lock pyproject.toml
	@$(BIN)/pip-compile --upgrade --extra build --extra server --extra console --extra groups --extra spark --extra tls -o requirements-dev.lock pyproject.toml requirements-dev.in
	@! grep -nE 'https?://' requirements.lock requirements-dev.lock

clean:
	@rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	@find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
	@rm -rf src/*.egg-info interop/java/target interop/node/node_modules
