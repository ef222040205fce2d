"""Fixtures: small random encoders, each built once, and a local hub; the network is off."""

import gc
import os
import signal
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
# Where no bytecode is written, each process of the tests compiles torch and transformers again,
# which takes longer than most tests.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    sys.dont_write_bytecode = False
# The models are so small that several threads would only wait for each other, here and in processes
# of tests.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# rich keeps the codes of a style as they were when it was first shown, for any console after that.
os.environ["COLORTERM"] = "truecolor"

import pytest  # noqa: E402
import torch  # noqa: E402
from hypothesis import settings  # noqa: E402

from narrative_twins import StoryEncoder  # noqa: E402

from support.hub import hub as hub  # noqa: E402
from support.models import encoder_of, small  # noqa: E402

torch.set_num_threads(1)

# No deadline: machines that run the tests can be slow at random moments.
settings.register_profile("tests", deadline=None, max_examples=15)
# `pytest --hypothesis-profile thorough` looks longer for what breaks a property.
settings.register_profile("thorough", deadline=None, max_examples=200)
settings.load_profile("tests")

# Shells start background jobs with Ctrl-C ignored, which the processes of tests would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Start modules with slow tests first, so that no worker ends with one while the others have
    nothing to do. This is after pytest-randomly has mixed them."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_collection_finish() -> None:
    """Leave what was imported out of the garbage collections that each training run starts with,
    which take half a second otherwise."""
    gc.collect()
    gc.freeze()


def pytest_report_header() -> str:
    """The processor, on which the kernels of torch depend."""
    # Before torch 2.9 the capabilities are unknown.
    features = getattr(torch.cpu, "get_capabilities", dict)()
    native = [name for name in ("avx512_bf16", "amx_bf16") if features.get(name)]
    kernels = [torch.backends.cpu.get_cpu_capability(), *native]
    return f"processor: {os.cpu_count()} x {features.get('cpu_name')}, {', '.join(kernels)}"


@pytest.fixture(autouse=True)
def same_environment(monkeypatch) -> None:
    """`datasets` leaves a copy in place of `os.environ` after `map` in several processes, and rich,
    which has the first one, would not see later changes."""
    monkeypatch.setattr(os, "environ", os.environ)


@pytest.fixture
def encoder() -> StoryEncoder:
    return small()


@pytest.fixture(scope="session")
def default() -> StoryEncoder:
    """The default encoder in float32, the same on every machine."""
    return StoryEncoder.from_pretrained(device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("bert")
    model, tokenizer = encoder_of("bert")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def fast(monkeypatch) -> None:
    """As on a GPU with native bfloat16."""
    monkeypatch.setattr("narrative_twins.encoder.passes.fast_dtype", lambda device: torch.bfloat16)


@pytest.fixture
def any_release_of_peft(monkeypatch) -> None:
    """transformers may ask for a release of peft that is not published yet, although others
    work."""
    monkeypatch.setattr("transformers.integrations.peft.MIN_PEFT_VERSION", "0.20", raising=False)


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """The names of tests with files as parameters: without their content, which may have the time
    in it."""
    return argname if isinstance(val, bytes) and len(val) > 40 else None
