import itertools

import pytest

from feddr.engines.shared.shards import SHARDS, cover, first_client, shard_of


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 1000, 10**7 + 3])
def test_shards_are_blocks_of_clients_of_nearly_one_size(n: int) -> None:
    firsts = [first_client(shard, n) for shard in range(SHARDS + 1)]
    assert firsts[0] == 0
    assert firsts[-1] == n
    sizes = [b - a for a, b in itertools.pairwise(firsts)]
    assert max(sizes) - min(sizes) <= 1
    for shard, (a, b) in enumerate(itertools.pairwise(firsts)):
        assert all(shard_of(client, n) == shard for client in {a, b - 1} if a < b)


def test_a_cover_is_disjoint_and_as_small_as_nodes_allow() -> None:
    for start, stop in itertools.combinations(range(SHARDS + 1), 2):
        nodes = cover(start, stop)
        assert [shard for node in nodes for shard in range(node.start, node.stop)] == list(range(start, stop))
        mergeable = [
            a.level == b.level and a.number + 1 == b.number and a.number % 2 == 0 for a, b in itertools.pairwise(nodes)
        ]
        assert not any(mergeable)
