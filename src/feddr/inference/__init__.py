"""Inference: what a trained model says about new rows, in the process that trained it or from its folder alone.

The modules::

    predictor     Predictor: rows in, labels, probabilities, scores and coefficients out
    forward       the forward function of a model, rebuilt from its spec or stored as StableHLO
    structure     the structure of parameters in plain values, and back
    files         the files of a saved model, and load
    onnx_export   a model as an ONNX file, an extra
"""

from feddr.inference.files import load
from feddr.inference.predictor import Predictor

__all__ = ["Predictor", "load"]
