"""The server: it knows the model and g, never a patient."""

from feddr import flower
from hospitals.task import FEATURES, HOSPITALS, MODEL, G, algorithm

described = flower.ModelDescription(MODEL, "classification", FEATURES, classes=("healthy", "ill"))
app = flower.server_app(
    flower.Federation(MODEL.init(0), len(HOSPITALS), G, weights="samples", evaluation="nodes", description=described),
    algorithm,
)
