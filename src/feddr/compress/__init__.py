"""Compression: fewer bytes on the way to the server, with error feedback, and on the way to the clients.

An algorithm with ``upload=Quantised(4)`` sends C(target - counted) and both sides add it to what the server counts for
the client. What C leaves out is still in the difference of the next update, so nothing is lost for good. That is error
feedback, without a variable of its own wherever the server counts a value for each client.

Its modules::

    compressor     the base class, the frame of an encoded message, and the feedback step
    quantised      few bits for each number
    rounded        two bytes for each number
    sparse         few of the numbers, the largest or random ones
    nonzero        all numbers but zeros
    fixed_point    whole multiples of one step that all clients share
    bits           whole numbers of a few bits, packed into bytes
"""

from feddr.compress.compressor import Compressor, EncodingError, feedback
from feddr.compress.fixed_point import FixedPoint
from feddr.compress.nonzero import Nonzero
from feddr.compress.quantised import Quantised
from feddr.compress.rounded import Rounded
from feddr.compress.sparse import RandomK, TopK

__all__ = [
    "Compressor",
    "EncodingError",
    "FixedPoint",
    "Nonzero",
    "Quantised",
    "RandomK",
    "Rounded",
    "TopK",
    "feedback",
]
