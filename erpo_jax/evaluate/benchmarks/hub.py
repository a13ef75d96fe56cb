"""Where each set lies on the Hugging Face hub, and its files here, downloaded into the hub's own cache.

The files are read as they are (JSON Lines, parquet); no data-set script ever runs. `HF_HOME` says where the cache lies,
`HF_HUB_OFFLINE=1` keeps to what is there already.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from erpo_jax.evaluate.estimates import EvaluationError


@dataclass(frozen=True)
class HubSet:
    """A data set on the hub: repository, and the pattern of a split's files. `{split}` stands for the split's name."""

    repository: str
    pattern: str
    split: str = "test"


HUB = {
    "humaneval": HubSet("openai/openai_humaneval", "openai_humaneval/{split}-*.parquet"),
    "humaneval+": HubSet("evalplus/humanevalplus", "data/{split}-*.parquet"),
    "mbpp": HubSet("google-research-datasets/mbpp", "sanitized/{split}-*.parquet"),
    "mbpp+": HubSet("evalplus/mbppplus", "data/{split}-*.parquet"),
    "livecodebench": HubSet("livecodebench/code_generation_lite", "{split}*.jsonl"),
    "codecontests": HubSet("deepmind/code_contests", "data/{split}-*.parquet"),
    "taco": HubSet("BAAI/TACO", "ALL/{split}-*.parquet"),
    "apps": HubSet("codeparrot/apps", "{split}.jsonl"),
    "codeforces": HubSet("open-r1/codeforces", "verifiable/{split}-*.parquet"),
}


def hub_files(name: str, source: str, release: str) -> list[Path]:
    """The files of `source`, "hub" or "hub:SPLIT", of benchmark `name`, downloaded.

    LiveCodeBench's `release` chooses among its files (release_v5, v6, v2_v4, release_latest). Raises EvaluationError
    when the hub cannot be reached or does not hold them.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # its client's own, whichever that is

    if name not in HUB:
        raise EvaluationError(f"{name} is not on the hub: name its files; there are {', '.join(HUB)}")
    place = HUB[name]
    patterns = [place.pattern.format(split=source.partition(":")[2] or place.split)]
    if name == "livecodebench":
        patterns = livecodebench_files(release)
    try:
        folder = Path(snapshot_download(place.repository, repo_type="dataset", allow_patterns=patterns))
    except (OSError, HTTPError) as error:  # the hub's errors of access and cache are OSErrors; a lost connection is not
        why = (str(error).splitlines() or [""])[0]
        raise EvaluationError(
            f"{place.repository} cannot be had from the hub ({type(error).__name__}: {why}); "
            "download its files elsewhere and name them in place of 'hub'"
        ) from error
    found = [(pattern, sorted(folder.glob(pattern))) for pattern in patterns]
    for pattern, files in found:
        if not files:
            raise EvaluationError(f"{place.repository} on the hub holds no file {pattern}")
    return [file for _, files in found for file in files]


def livecodebench_files(release: str) -> list[str]:
    """The files of a LiveCodeBench release: release_vN is files 1 to N, vN file N alone, vA_vB files A to B,
    release_latest (and "") all of them.

    File 1 is test.jsonl, file N testN.jsonl. Raises EvaluationError for any other release.
    """
    if release in ("", "release_latest"):
        return ["test*.jsonl"]
    whole, part = re.fullmatch(r"release_v(\d+)", release), re.fullmatch(r"v(\d+)(?:_v(\d+))?", release)
    if whole:
        numbers = range(1, int(whole[1]) + 1)
    elif part:
        numbers = range(int(part[1]), int(part[2] or part[1]) + 1)
    else:
        numbers = range(0)
    if not numbers or numbers[0] < 1:
        raise EvaluationError(f"--release {release}: LiveCodeBench's are release_v1, release_v2, ..., v2, v2_v4, ...")
    return ["test.jsonl" if number == 1 else f"test{number}.jsonl" for number in numbers]
