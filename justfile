# Everything this project runs, by name. `just` alone lists the targets; each target installs what it needs.

set positional-arguments
set quiet

bin := quote(justfile_directory() / ".venv/bin")
# Identifies what .venv was installed for: this folder, the requirements and their pins.
stamp := sha256(justfile_directory() + sha256_file(justfile_directory() / "pyproject.toml") + sha256_file(justfile_directory() / "constraints.txt"))

# List the targets
default:
    {{ quote(just_executable()) }} --justfile {{ quote(justfile()) }} --list --unsorted

# Learn lessons: `just learn math`, `just learn math --data tasks.jsonl --epochs 2`
[group("use")]
[no-cd]
[no-exit-message]
learn *ARGS: setup
    {{ bin }}/agentlearn learn "$@"

# Compare libraries, models or instructions with statistics: `just compare none math`
[group("use")]
[no-cd]
[no-exit-message]
compare *ARGS: setup
    {{ bin }}/agentlearn compare "$@"

# Train a local model's weights (gradient GRPO; installs torch): `just train math`, `just train math --model FOLDER`
[group("use")]
[no-cd]
[no-exit-message]
train *ARGS: setup-train
    {{ bin }}/agentlearn train "$@"

# Answer one problem and show the steps: `just solve math "From 7 women and 2 men a committee of 3 people is chosen. How many committees include at least 2 of the women?"`
[group("use")]
[no-cd]
[no-exit-message]
solve *ARGS: setup
    {{ bin }}/agentlearn solve "$@"

# Install what learning needs into .venv (uv when it is there, else pip); a no-op when nothing changed
[group("set up")]
setup:
    case "$(cat .venv/agentlearn-setup 2>/dev/null)" in "learn {{ stamp }}"|"train {{ stamp }}"|"dev {{ stamp }}") ;; *) scripts/setup learn {{ stamp }} ;; esac

# Install what learning and training weights need
[group("set up")]
setup-train:
    case "$(cat .venv/agentlearn-setup 2>/dev/null)" in "train {{ stamp }}"|"dev {{ stamp }}") ;; *) scripts/setup train {{ stamp }} ;; esac

# Install what learning and development need
[group("set up")]
setup-dev:
    case "$(cat .venv/agentlearn-setup 2>/dev/null)" in "dev {{ stamp }}") ;; *) scripts/setup dev {{ stamp }} ;; esac

# Format the code and sort its imports
[group("check")]
fmt: setup-dev
    .venv/bin/python -m ruff check --quiet --select I --fix .
    .venv/bin/python -m ruff format .

# Check style, formatting and the direction of imports
[group("check")]
lint: setup-dev
    .venv/bin/python -m ruff check .
    .venv/bin/python -m ruff format --check .
    .venv/bin/lint-imports

# Check types, strictly
[group("check")]
types: setup-dev
    .venv/bin/python -m basedpyright --pythonpath .venv/bin/python

# Run the quick tests, or those named: `just test`, `just test tests/unit -k "ids or value"`
[group("check")]
[no-exit-message]
test *ARGS: setup-dev
    scripts/test "$@"

# Run all tests: the quick ones, whole runs, browsers and several processes, with coverage
[group("check")]
[no-exit-message]
test-all *ARGS: setup-dev
    scripts/test --all "$@"

# Run the tests that need a real vLLM, on the CPU, in a separate environment (.venv-vllm)
[group("check")]
[no-exit-message]
test-vllm *ARGS:
    scripts/test-vllm "$@"

# Build the wheel, install it in an empty environment and test it there; the result is in dist/
[group("check")]
[no-exit-message]
wheel: setup-dev
    scripts/wheel

# Install the lowest versions that pyproject.toml allows in an empty environment, and test them there
[group("check")]
[no-exit-message]
lowest: setup-dev
    scripts/bounds lowest

# Install the newest versions that pyproject.toml allows in an empty environment, and test them there
[group("check")]
[no-exit-message]
newest: setup-dev
    scripts/bounds newest

# Measure everything, or one thing: `just bench`, `just bench store --total 1000`
[group("check")]
[no-exit-message]
bench *ARGS: setup-dev
    .venv/bin/python -m scripts.bench "$@"

# Train a small real model on five kinds of tasks with three seeds, and print what changed (first: agentlearn models fetch smollm2-135m)
[group("check")]
[no-exit-message]
real *ARGS: setup-dev
    .venv/bin/python -m scripts.bench.real "$@"

# Ask whether a real model follows lessons and can write them, on ten kinds of tasks (fetches 1.6 GB, builds a model server): `just proof`, `just proof --small`
[group("check")]
[no-exit-message]
proof *ARGS: setup-dev
    .venv/bin/python -m scripts.bench.proof "$@"

# Write docs/evidence_from_recordings.md again from clones of other people's results: `just recordings CLONES`
[group("check")]
recordings *ARGS: setup-dev
    .venv/bin/python -m scripts.bench.recordings --out docs/evidence_from_recordings.md "$@"

# Build the site of the documentation in build/site, with links checked; it loads nothing from elsewhere
[group("check")]
docs: setup-dev
    .venv/bin/python -m scripts.docs

# Build the site and serve it on this machine: http://127.0.0.1:8300
[group("check")]
docs-serve: docs
    .venv/bin/python -m http.server --bind 127.0.0.1 --directory build/site 8300

# Plant faults in the files that pyproject.toml names, or in one of them, and list those that no test notices (mutmut)
[group("check")]
[no-exit-message]
mutants FILE="": setup-dev
    .venv/bin/python -m mutmut run {{ if FILE == "" { "" } else { quote(replace(trim_end_match(FILE, ".py"), "/", ".") + "*") } }}
    .venv/bin/python -m mutmut results | grep -v ": not checked" || true

# Run lint, types, the site, all tests, wheel, lowest and newest, as CI does
[group("check")]
check: lint types docs test-all wheel lowest newest

# Remove build results and caches; keep .venv and everything learned (.agentlearn)
[group("set up")]
clean:
    rm -rf dist build htmlcov .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis .import_linter_cache
    rm -rf mutants
    find agentlearn domains evals scripts tests -type d -name __pycache__ -prune -exec rm -rf {} +
