"""The course of a run in its report."""

import json

from omegaconf import OmegaConf

from erpo_jax.config import Config
from erpo_jax.evaluate.training import training_section


def test_the_course_is_drawn_from_the_metrics_beside_the_report(tmp_path):
    assert training_section(tmp_path) == []
    config = Config()
    config.loss.entropy_ceiling = 0.25
    (tmp_path / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.structured(config)))
    rows = [
        {
            "step": 0,
            "reward/mean": 0.0,
            "reward/tied_groups": 0.5,
            "update/entropy": 0.25,
            "update/kept_positive_share": 0.0,
        },
        {"step": 1, "reward/mean": None, "reward/tied_groups": 0.5, "update/entropy": 0.5},
        {
            "step": 2,
            "reward/mean": 1.0,
            "reward/tied_groups": 0.5,
            "update/entropy": 0.0,
            "update/kept_positive_share": 1.0,
        },
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    head, method, rewards, kept, entropies = training_section(tmp_path)
    assert head == "<h2>Training</h2>"
    assert "mask rank, ceiling 0.25 nats (c = 1), learning rate 5e-07; 16 problems x 16 programs" in method
    assert '<polyline class="adapted line" points="64.0,195.0 616.0,33.0"/>' in kept
    # steps 0 to 2 lie between x = 64 and 616; -0.08 to 1.08 between y = 208 and 20: 208 - 188 * 0.08 / 1.16 = 195.0
    assert '<polyline class="base line" points="64.0,195.0 616.0,33.0"/>' in rewards
    assert '<polyline class="adapted line" points="64.0,114.0 340.0,114.0 616.0,114.0"/>' in rewards
    assert entropies.count("polyline") == 1
    assert 'class="diagonal" x1="64.0" y1="114.0" x2="616.0" y2="114.0"' in entropies
    assert "ceiling of 0.25 nats" in entropies
