"""The figures of the paper: which experiments, and what the paper says of them."""

from feddr.reproduce.figure import SEEDS, Experiment, Figure

SMALL = ("rounds=3", "evaluate_every=1", "local.epochs=1")
FEW = (*SMALL, "data.num_clients=6")
FEW_SAMPLED = (*FEW, "sampling.m=2")
CLOCK = (*FEW, "updates=18", "evaluate_every_updates=6")
STRENGTHS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
SETS = ("iid", "00", "0505", "11")
MIDDLE = ("00", "0505")
BUDGETS = ("round", "megabytes")
LONG = SEEDS[:2]
"""Seeds of figures whose runs take minutes."""

EVERYONE = Figure(
    "synthetic",
    "Synthetic federations, everybody in every round",
    "FedAvg is best and the others are alike on the iid set; on the others FedDR and FedPD are alike and beat FedProx, "
    "which beats FedAvg; on (1,1) FedDR is best, then FedPD. The more the users differ, the less steady all are.",
    tuple(Experiment((f"synthetic-{name}",), quick=FEW, at_length=name in MIDDLE) for name in SETS),
    budgets=BUDGETS,
)
SAMPLED = Figure(
    "sampled",
    "Synthetic federations, 10 of 30 users in a round, FedPD all of them",
    "Against bytes, FedDR does well, FedProx is a little behind FedPD, and all three beat FedAvg.",
    tuple(Experiment((f"sampled-{name}",), quick=FEW_SAMPLED, fewer=3, at_length=name in MIDDLE) for name in SETS),
    x=("megabytes",),
    budgets=BUDGETS,
)
FEMNIST = Figure(
    "femnist",
    "Handwriting, a quarter of the users in a round, FedPD all of them",
    "Against bytes, FedDR has the least loss and the highest training accuracy; FedPD reaches its test accuracy at the "
    "end.",
    (
        Experiment(("femnist", "writers", "digits"), quick=FEW_SAMPLED, fewer=4),
        Experiment(("few-labels",), quick=FEW_SAMPLED, fewer=4, optional=True),
    ),
    x=("megabytes",),
    budgets=BUDGETS,
    seeds=LONG,
)
SHARDS = Figure(
    "shards",
    "Digits by label, two shards each, a fifth of the users in a round, FedPD all of them",
    "The paper has no such figure; it is how others have made users differ.",
    (Experiment(("shards", "shards-digits"), quick=FEW_SAMPLED, fewer=5),),
    x=("megabytes",),
    budgets=BUDGETS,
    seeds=SEEDS[:3],
)


def _composite(
    files: tuple[str, ...], rates: tuple[float, ...], epochs: tuple[int, ...], users: tuple[int, ...]
) -> tuple[Experiment, ...]:
    varied = (
        ("local.lr", rates, rates[::2]),
        ("local.epochs", epochs, (1, 2)),
        ("sampling.m", users, (2, 4)),
    )
    return tuple(
        Experiment(files, key, values, only=label, quick=FEW_SAMPLED, quick_values=few)
        for label in ("FedDR (published)", "FedDR()")
        for key, values, few in varied
    )


CLAIM = (
    "Composite FedDR: there is a best learning rate for each data set; more epochs, and so less error in the prox, are "
    "better; fewer users in a round are worse by rounds and about the same by bytes."
)
COMPOSITE = Figure(
    "composite",
    "g = 0.01 l1, synthetic-(0,0)",
    CLAIM,
    _composite(("composite-00",), (0.0025, 0.005, 0.0075, 0.01, 0.025), (5, 10, 15, 20, 30), (5, 10, 15, 20, 25)),
    x=("round", "megabytes"),
    seeds=SEEDS[:3],
)
COMPOSITE_IMAGES = Figure(
    "composite-images",
    "g = 0.01 l1, handwriting",
    CLAIM,
    _composite(("composite-few-labels", "composite-digits"), (0.001, 0.003, 0.01), (5, 10, 20), (10, 25, 50)),
    x=("round", "megabytes"),
    seeds=LONG,
)
ASYNCHRONOUS = Figure(
    "async",
    "FedDR in rounds and asyncFedDR, over virtual time",
    "asyncFedDR is better than FedDR over time: lower loss and higher accuracies.",
    (
        Experiment(("async-few-labels", "async-digits"), quick=CLOCK),
        Experiment(("async-synthetic",), quick=CLOCK),
    ),
    x=("time",),
    budgets=("time",),
)
SPARSITY = Figure(
    "sparsity",
    "Sparsity and accuracy for l1 strengths, FedDecoupled with all users in a round",
    "The paper has no such figure; it is the question that a composite method is for.",
    tuple(
        Experiment(
            ("sparsity-writers", "sparsity-digits"),
            sets=(f"g.strength={strength:g}",),
            quick=FEW_SAMPLED,
            fewer=3,
            at_length=strength not in STRENGTHS[::2],
        )
        for strength in STRENGTHS
    ),
    x=("megabytes",),
    budgets=BUDGETS,
    seeds=SEEDS[:3],
    curve=True,
)
COMPRESSED = (
    ("every bit", ""),
    ("8 bits", '{name = "Quantised", bits = 8}'),
    ("4 bits", '{name = "Quantised", bits = 4}'),
    ("2 bits", '{name = "Quantised", bits = 2}'),
    ("the largest 10 %", '{name = "TopK", share = 0.1}'),
    ("the largest 1 %", '{name = "TopK", share = 0.01}'),
)
"""How uploads are compressed: in words, and in TOML."""
UPLOADED = Figure(
    "bytes",
    "Accuracy against bytes sent up, with compressed uploads",
    "The paper has no such figure; its question is how good a model is for its bytes.",
    tuple(
        Experiment(
            ("sampled-11",),
            lines=("FedDR()", "FedDyn", "SCAFFOLD", "FedAvgM", "FedAvg"),
            sets=(f"algorithm.upload={upload}",) if upload else (),
            name=f"uploads of {words}",
            quick=FEW_SAMPLED,
            at_length=words in ("8 bits", "2 bits", "the largest 10 %"),
        )
        for words, upload in COMPRESSED
    ),
    x=("uploaded",),
    seeds=LONG,
)
FIGURES = {
    figure.name: figure
    for figure in (EVERYONE, SAMPLED, FEMNIST, SHARDS, COMPOSITE, COMPOSITE_IMAGES, ASYNCHRONOUS, SPARSITY, UPLOADED)
}
"""All figures, in the order of the paper."""
