"""FSDP: two processes that share the weights of an encoder train it as one process does.

accelerate has FSDP for GPUs only. This file, run with a file of arguments, starts two processes
that run the script with each of them, with CPUs in place of GPUs, and write what it prints."""

import json
import os
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from accelerate.state import DistributedType, PartialState
from datasets import Dataset
from safetensors.torch import load_file

from narrative_twins import StoryEncoder
from narrative_twins.training.estimate import training_memory

from support.examples import run
from support.models import encoder_of, small, trainable
from support.processes import run_python
from support.twins_batches import TWINS, trainer_of


def run_as_on_gpus(rank: int, file: Path, port: int) -> None:
    """What one process does."""
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    dist.init_process_group("gloo")
    PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_GPU)
    PartialState.set_device = lambda state: setattr(state, "device", torch.device("cpu"))
    printed = []
    for arguments in json.loads(file.read_text(encoding="utf-8")):
        torch.manual_seed(0)  # for the weights of a new adapter
        printed.append(run("train_roc.py", *arguments))
    if rank == 0:
        file.write_text(json.dumps(printed), encoding="utf-8")
    dist.barrier()
    # Otherwise threads of the group may abort the process when it ends.
    os._exit(0)


@pytest.mark.slow
def test_two_processes_that_share_the_weights_train_as_one(tmp_path):
    """In one test, since processes take long to start."""
    model, tokenizer = encoder_of("bert")
    # Dropout would differ between processes.
    model.config.update({"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "encoder")
    flags = ["--smoke", "--use_cpu", "--encoder", str(tmp_path / "encoder")]
    flags += ["--mini_batch_size", "3", "--learning_rate", "1e-2"]
    # A large epsilon, or Adam would scale up gradients that are rounding alone. A constant rate,
    # since the run that is resumed has fewer steps.
    flags += ["--adam_epsilon", "1e-3", "--lr_scheduler_type", "constant", "--output_dir"]
    validated = ["--salience_source", str(tmp_path / "labels.jsonl"), "--operations", "deletion"]
    row = {"story": ["Nadia ran.", "It rained.", "She found a map."], "votes": [5, 0, 1]}
    (tmp_path / "labels.jsonl").write_text(json.dumps(row))
    lora = ["--lora", "{rank: 2}"]
    runs = [
        [*flags, str(tmp_path / "shared"), "--fsdp", *validated, "--max_steps", "3"],
        # Resumed from the second step, where it was also validated.
        [*flags, str(tmp_path / "shared"), "--fsdp", *validated, "--resume"],
        [*flags, str(tmp_path / "adapter"), "--fsdp", *lora],
    ]
    lines = tmp_path / "runs.json"
    lines.write_text(json.dumps(runs))
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[1])}
    environment |= {"GLOO_SOCKET_IFNAME": "lo", "CUDA_VISIBLE_DEVICES": ""}
    run_python(__file__, lines, env={**os.environ, **environment})
    _, resumed, _ = json.loads(lines.read_text())
    assert "4 steps" in resumed and "on 2 processes (cpu)" in resumed

    for name, options in {"shared": validated, "adapter": lora}.items():
        torch.manual_seed(0)
        run("train_roc.py", *flags, tmp_path / f"{name}_alone", *options)
        file = "adapter_model.safetensors" if options is lora else "model.safetensors"
        weights, alone = (
            load_file(tmp_path / folder / "final" / file) for folder in (name, f"{name}_alone")
        )
        assert weights.keys() == alone.keys()
        for key, weight in weights.items():
            assert torch.allclose(weight, alone[key], atol=1e-5), key
        results, expected = (
            json.loads((tmp_path / folder / "eval_results.json").read_text())
            for folder in (name, f"{name}_alone")
        )
        assert {key: results[key] for key in results if "salience" in key} == {
            key: pytest.approx(expected[key], abs=1e-6) for key in expected if "salience" in key
        }
    trained = load_file(tmp_path / "shared" / "final" / "model.safetensors")
    start = load_file(tmp_path / "encoder" / "model.safetensors")
    assert any(not torch.allclose(trained[key], start[key], atol=1e-4) for key in trained)
    StoryEncoder.from_pretrained(tmp_path / "shared" / "final")


def test_what_fsdp_does_not_do_is_refused(tmp_path):
    state = SimpleNamespace(fsdp_plugin=SimpleNamespace(fsdp_version=1))
    trainer = trainer_of(tmp_path, Dataset.from_list(TWINS), trainable())
    trainer.accelerator = SimpleNamespace(state=state)
    with pytest.raises(ValueError, match="set fsdp_version: 2"):
        trainer._set_up_fsdp()
    peft = pytest.importorskip("peft")
    encoder = trainable()
    config = peft.LoraConfig(r=2, target_modules="all-linear")
    encoder[0].model = peft.get_peft_model(encoder[0].model, config)
    trainer = trainer_of(tmp_path, Dataset.from_list(TWINS), encoder)
    trainer.is_fsdp_enabled = True
    with pytest.raises(ValueError, match="merged=False"):
        trainer.save_encoder(tmp_path / "merged")


def test_the_memory_that_processes_share_is_divided():
    model = small("bert").model
    alone, half = (training_memory(model, 100, bf16=True, shards=count) for count in (1, 2))
    assert half.fixed == alone.fixed // 2 and half.activations == alone.activations


if __name__ == "__main__":
    torch.set_num_threads(1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # The copies are made before torch starts threads.
    arguments = (Path(sys.argv[1]), port)
    torch.multiprocessing.start_processes(run_as_on_gpus, arguments, 2, start_method="fork")
