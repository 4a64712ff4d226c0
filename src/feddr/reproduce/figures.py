"""The figures of the paper: which experiments, and what the paper says of them."""

from feddr.reproduce.figure import Experiment, Figure

SEEDS = (7, 14, 36)
"""The draws of the synthetic federations with the fewest samples among seeds 0 to 39; 20, the fourth, is for tuning."""

SMALL = ("rounds=3", "evaluate_every=1", "local.epochs=1")
FEW = (*SMALL, "data.num_clients=6")
FEW_SAMPLED = (*FEW, "sampling.m=2")
CLOCK = (*FEW, "updates=18", "evaluate_every_updates=6")
WRITERS = ("writers", "digits")
STRENGTHS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)

EVERYONE = Figure(
    "synthetic",
    "Synthetic federations, everybody in every round",
    "FedAvg is best and the others are alike on the iid set; on the others FedDR and FedPD are alike and beat FedProx, "
    "which beats FedAvg; on (1,1) FedDR is best, then FedPD. The more the users differ, the less steady all are.",
    tuple(Experiment((f"synthetic-{name}",), quick=FEW) for name in ("iid", "00", "0505", "11")),
)
SAMPLED = Figure(
    "sampled",
    "Synthetic federations, 10 of 30 users in a round, FedPD all of them",
    "Against bytes, FedDR does well, FedProx is a little behind FedPD, and all three beat FedAvg.",
    tuple(Experiment((f"sampled-{name}",), quick=FEW_SAMPLED, fewer=3) for name in ("00", "11")),
    x=("megabytes",),
)
FEMNIST = Figure(
    "femnist",
    "Handwriting, a quarter of the users in a round, FedPD all of them",
    "Against bytes, FedDR has the least loss and the highest training accuracy; FedPD reaches its test accuracy at the "
    "end.",
    (Experiment(("femnist", *WRITERS), quick=FEW_SAMPLED, fewer=4),),
    x=("megabytes",),
)


def _composite(file: str) -> tuple[Experiment, ...]:
    rates, users = (0.0025, 0.005, 0.0075, 0.01, 0.025), (5, 10, 15, 20, 25)
    return (
        Experiment((file,), "local.lr", rates, quick=FEW_SAMPLED, quick_values=rates[::3]),
        Experiment((file,), "local.epochs", (5, 10, 15, 20, 30), quick=FEW_SAMPLED, quick_values=(1, 2)),
        Experiment((file,), "sampling.m", users, quick=FEW_SAMPLED, quick_values=(2, 4)),
    )


CLAIM = (
    "Composite FedDR: there is a best learning rate for each data set; more epochs, and so less error in the prox, are "
    "better; fewer users in a round are worse by rounds and about the same by bytes."
)
COMPOSITE = Figure("composite", "g = 0.01 l1, as published", CLAIM, _composite("composite"), x=("round", "megabytes"))
COMPOSITE_TUNED = Figure(
    "composite-tuned", "g = 0.01 l1, with a smaller eta", CLAIM, _composite("composite-tuned"), x=("round", "megabytes")
)
ASYNCHRONOUS = Figure(
    "async",
    "FedDR in rounds and asyncFedDR, over virtual time",
    "asyncFedDR is better than FedDR over time: lower loss and higher accuracies.",
    (
        Experiment(("async-writers", "async-digits"), quick=CLOCK),
        Experiment(("async-synthetic",), quick=CLOCK),
    ),
    x=("time",),
)
SPARSITY = Figure(
    "sparsity",
    "Sparsity and accuracy for l1 strengths",
    "The paper has no such figure; it is the question that a composite method is for.",
    tuple(
        Experiment(
            ("sparsity-writers", "sparsity-digits"),
            sets=(f"g.strength={strength:g}",),
            quick=FEW_SAMPLED,
            at_length=strength not in STRENGTHS[::2],
        )
        for strength in STRENGTHS
    ),
    curve=True,
)
FIGURES = {
    figure.name: figure for figure in (EVERYONE, SAMPLED, FEMNIST, COMPOSITE, COMPOSITE_TUNED, ASYNCHRONOUS, SPARSITY)
}
"""All figures, in the order of the paper."""
