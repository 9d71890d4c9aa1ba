"""Keys that users ask for and netsim does not model, with the alternative; docs/limits.md says more."""

from __future__ import annotations

import re

# words of a key (each a whole part between underscores), what it means, and what to use instead
NOT_MODELLED = (
    ("interference sinr intercell", "interference", "record the effect in cell.gain_trace, or raise cell.noise_figure"),
    ("cells basestations base_stations handover gnb enb sectors", "several cells or base stations",
     "simulate each cell as a run of its own"),
    ("resource_blocks resource_block prb prbs rb rbs numerology subcarriers slots", "resource blocks and slots",
     "bandwidth is divided continuously; cell.link has an efficiency and a cap"),
    ("mcs modulation coding harq bler cqi", "modulation and coding schemes",
     "use cell.link, or a link model of your own"),
    ("antennas mimo beamforming beams ris irs", "antennas", "put the array gain into the channel gains"),
    ("noma ofdma superposition", "non-orthogonal access", "write a scheduler or an allocation method of your own"),
    ("tcp udp packets rtt latency jitter mtu congestion", "packets and transport protocols",
     "use population.loss for lost uploads"),
    ("backhaul cloud fronthaul hierarchy hierarchical edge_servers", "networks behind the base station",
     "a job ends when its upload reaches the base station"),
    ("gpu gpus npu npus tpu accelerator cores memory ram", "accelerators, cores and memory of a device",
     "set cpu.max and cycles_per_sample so that the computing time is right"),
    ("privacy dp epsilon encryption secure_aggregation clipping", "privacy and encryption",
     "add their bits to learning.bits and their cycles to cpu.cycles_per_sample"),
    ("byzantine attack attackers malicious poisoning", "attacks", "write a server or an aggregation of your own"),
    ("d2d gossip peers decentralized topology", "links between devices",
     "every device exchanges models with the server"),
    ("price prices cost incentive auction", "prices and incentives", "compute them from the trace"),
)


def not_modelled(key: str) -> str | None:
    """Return a sentence about a key that stands for something netsim does not model; None for other keys."""
    word = re.sub(r"[\s-]+", "_", key.strip().lower())
    parts = {word, *word.split("_")}
    for words, what, instead in NOT_MODELLED:
        if parts & set(words.split()) or any(f"_{each}_" in f"_{word}_" for each in words.split() if "_" in each):
            return f"Not modelled: {what}; see docs/limits.md. Instead, {instead}."
    return None
