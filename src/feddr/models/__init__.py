"""Models: initial parameters and a function of them, nothing else. Any pair of such functions is a model.

The modules::

    model            what a model is
    dense            linear and softmax regression, multilayer perceptrons
    convolutional    a small convolutional network, and a residual network with group normalisation
    recurrent        LSTM layers on sequences of tokens
    tokens           what the models of sequences of tokens share
    attention        a small transformer on sequences of tokens
    initial          how weights are drawn
    modules          modules of flax and equinox as models
    pytorch          modules of PyTorch as models, and their parameters
    torch_trace      how a PyTorch module becomes a function of JAX
    torch_check      which PyTorch modules are refused, and why
"""

from feddr.models.attention import transformer
from feddr.models.convolutional import cnn, resnet
from feddr.models.dense import linear, mlp, softmax
from feddr.models.model import Model
from feddr.models.modules import from_equinox, from_flax
from feddr.models.pytorch import from_torch
from feddr.models.recurrent import lstm

__all__ = [
    "Model",
    "cnn",
    "from_equinox",
    "from_flax",
    "from_torch",
    "linear",
    "lstm",
    "mlp",
    "resnet",
    "softmax",
    "transformer",
]
