"""The server: it knows the model and g, never a patient."""

from feddr import flower
from hospitals.task import HOSPITALS, MODEL, G, algorithm

app = flower.server_app(
    flower.Federation(MODEL.init(0), clients=len(HOSPITALS), g=G, weights="samples", evaluation="nodes"),
    algorithm,
)
