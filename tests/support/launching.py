"""Starting two_processes.py in several processes on this CPU."""

from __future__ import annotations

import os
from pathlib import Path

from support import two_processes
from support.processes import run_python

SCRIPT = Path(two_processes.__file__)


def run_two(*arguments: object) -> None:
    """Run the script in two processes."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(SCRIPT.parents[1]),
        "GLOO_SOCKET_IFNAME": "lo",
        "CUDA_VISIBLE_DEVICES": "",
    }
    launch = "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"
    run_python(*launch, SCRIPT, *arguments, env=environment)
