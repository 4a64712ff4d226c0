"""Files: whole or not there, locked while somebody works with them, checked before they are believed.

atomic       atomic writes (fsync and rename), and folders that are gone again where what follows fails
lock         one process at a time in a folder (flock)
tensors      named arrays in safetensors files with a header and a checksum; trees flattened and restored
jsonl        append-only logs, one JSON object a line
untrusted    files that somebody else may have made: read up to a limit, never written through a link
limits       how large things may be
"""
