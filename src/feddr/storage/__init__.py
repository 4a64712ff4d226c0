"""Storage: atomic writes, locks, and checks of files before they are used.

The modules::

    atomic       atomic writes (fsync and rename), and folders that are gone again where what follows fails
    lock         one process at a time in a folder (flock)
    tensors      named arrays in safetensors files with a header and a checksum; trees flattened and restored
    jsonl        append-only logs, one JSON object a line
    untrusted    small files that somebody else may have written: read up to a limit, no symbolic links
    limits       limits on sizes and memory
"""
