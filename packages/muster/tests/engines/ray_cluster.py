"""A cluster of Ray, three nodes on this machine: run by test_ray_multiprocess.py, which writes what to do.

Prints the address of the cluster. A line "remove 1" ends a node, "add" adds one; each
is answered by "done". The end of the input ends all.
"""

import sys

from ray.cluster_utils import Cluster

STORE = 80 << 20


def main():
    head = {"num_cpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = [cluster.add_node(num_cpus=2, object_store_memory=STORE) for _ in range(2)]
    cluster.wait_for_nodes()
    print(cluster.address, flush=True)
    for line in sys.stdin:
        what, _, number = line.strip().partition(" ")
        if what == "remove":
            cluster.remove_node(nodes[int(number)], allow_graceful=False)
        else:
            nodes.append(cluster.add_node(num_cpus=2, object_store_memory=STORE))
            cluster.wait_for_nodes()
        print("done", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
