"""The sandbox on a Ray cluster of two nodes on this machine, one of which is lost in the middle of a step."""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import ray
from ray.cluster_utils import Cluster

from erpo_jax.config import SandboxConfig
from erpo_jax.errors import UserError
from erpo_jax.execution import open_sandbox
from erpo_jax.ray_sandbox import RayPool, RaySandbox
from erpo_jax.sandbox import Job, Limits, Sandbox, SandboxError
from tests.sandbox.processes import below, gone
from tests.sandbox.test_pool import MIXED, bare

NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A head without a CPU, and two nodes with one each."""
    before = os.environ.get("RAY_USAGE_STATS_ENABLED")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    made = Cluster(initialize_head=True, head_node_args={**NODE, "num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        made.add_node(**NODE)
    yield made
    made.shutdown()
    if before is None:
        del os.environ["RAY_USAGE_STATS_ENABLED"]


def test_the_same_as_local_workers(cluster: Cluster, sandbox: Sandbox) -> None:
    local = sandbox.run(MIXED)
    on_sigterm = signal.getsignal(signal.SIGTERM)
    with open_sandbox(SandboxConfig(backend="ray", ray_address=cluster.address)) as distant:
        assert isinstance(distant, RaySandbox)
        assert signal.getsignal(signal.SIGTERM) is on_sigterm
        assert len({worker.actor for worker in distant.pool.workers}) == 2
        assert (distant.tier, distant.refused, distant.worker_pids) == (sandbox.tier, (), [])
        distant.self_test()
        found = distant.run(MIXED)
        assert distant.run([Job("print(1)", ("",)), Job("print( 1)", ("",))])[1][0].output == "1\n"
        assert distant.executions_saved == 1
        read: list[int] = []

        def endless() -> Iterator[Job]:
            while True:
                read.append(len(read))
                yield Job(f"print({read[-1]})", ("",))

        stream = distant.stream(endless())
        seen = [next(stream) for _ in range(8)]
        stream.close()  # type: ignore[attr-defined]
        assert all(outcomes[0].output == f"{index}\n" for index, outcomes in seen)
        assert len(read) <= 8 + 2 * 2
        with pytest.raises(SandboxError, match="job 0: input 0 is not a JSON list"):
            distant.run([Job("f = 1", ("{}",), "function", "f")])
        assert distant.run([Job("print(7)", ("",))])[0][0].output == "7\n"
    assert [[bare(outcome) for outcome in outcomes] for outcomes in found] == [
        [bare(outcome) for outcome in outcomes] for outcomes in local
    ]
    assert not ray.is_initialized()


def test_a_node_lost_in_the_middle_costs_retries_and_no_results(cluster: Cluster) -> None:
    jobs = [
        Job(f"import time\ntime.sleep(0.05)\nprint({n} // {n % 7})", ("", ""), limits=Limits(wall_s=20))
        for n in range(80)
    ]
    expected = [[("ok", f"{n // (n % 7)}\n")] * 2 if n % 7 else [("error", None)] * 2 for n in range(80)]
    node = min(cluster.worker_nodes, key=lambda node: node.node_id)
    with RaySandbox(cluster.address, workers=2) as sandbox:
        assert len(sandbox.pool.workers) == 2
        raylet = node.all_processes["raylet"][0].process.pid
        lost = [raylet, *below(raylet)]  # what a power cut takes
        began = threading.Event()

        def cut() -> None:
            began.wait(60)
            for pid in lost:
                with contextlib.suppress(ProcessLookupError):  # another's death may have taken it along
                    os.kill(pid, signal.SIGKILL)

        cutter = threading.Thread(target=cut)
        cutter.start()
        found: dict[int, list[tuple[str, str | None]]] = {}
        for index, outcomes in sandbox.stream(jobs):
            assert index not in found
            found[index] = [(outcome.verdict, outcome.output) for outcome in outcomes]
            if len(found) == 10:
                began.set()
        cutter.join()
        assert [found[index] for index in range(len(jobs))] == expected
        assert gone(lost)
        assert len(sandbox.pool.workers) == 1
        # a node that comes later is taken in
        cluster.remove_node(node)
        cluster.add_node(**NODE)
        end = time.monotonic() + 60
        while len(sandbox.pool.workers) < 2 and time.monotonic() < end:
            assert sandbox.run([Job("print(7)", ("",))])[0][0].output == "7\n"
        assert len(sandbox.pool.workers) == 2


def test_what_is_not_to_be_had_is_said_in_one_line(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SandboxError, match="tier=docker is not one of"):
        RaySandbox(cluster.address, tier="docker")
    nowhere = SandboxConfig(backend="ray", ray_address="127.0.0.1:1")
    with pytest.raises(UserError, match=r"cannot connect to a Ray cluster at '127.0.0.1:1'"), open_sandbox(nowhere):
        pass
    assert not ray.is_initialized()
    ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
    try:
        broken = RayPool({"tier": "no such tier"})
        with pytest.raises(SandboxError, match="no node of the Ray cluster gives a sandbox worker: tier=no such tier"):
            broken.grow(0)
        broken.close()
        with RaySandbox(cluster.address, workers=1):
            pass
        assert ray.is_initialized()  # a connection that was there before stays
    finally:
        ray.shutdown()
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"needs the package ray: pip install 'erpo_jax\[ray\]'"), open_sandbox(nowhere):
        pass
