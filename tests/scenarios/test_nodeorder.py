from tests.scenarios.deciding import bind, decide, pipeline

TIERS = "gang | predicates nodeorder"


def test_pods_spread_by_default() -> None:
    """The node that is used least comes first, and each placement counts for the next."""
    picture = """
        node  n1 cpu=8   node n2 cpu=8   node n3 cpu=8
        queue q
        job   q/old n1*3 n2
        job   q/new -*3
        """
    expected = [bind("new-0", "n3"), bind("new-1", "n2"), bind("new-2", "n3")]
    assert decide(picture, "allocate", TIERS) == expected


def test_room_that_is_promised_counts_as_used() -> None:
    """A node is judged by what will be on it, when that is more than what is."""
    picture = """
        node  n1 cpu=16   node n2 cpu=16
        queue q
        job   q/leaves cpu=2 ~n1
        job   q/stays  cpu=8 n2
        job   q/large  cpu=15 age=60 -
        job   q/small  -
        """
    expected = [bind("small-0", "n2"), pipeline("large-0", "n1")]
    assert decide(picture, "allocate", TIERS) == expected


def test_a_soft_taint_keeps_pods_away_while_there_is_a_choice() -> None:
    """PreferNoSchedule costs score, not admission."""
    picture = """
        node  n1 cpu=1 taint=spot=yes:PreferNoSchedule   node n2 cpu=1
        queue q
        job   q/p -*2
        """
    assert decide(picture, "allocate", TIERS) == [bind("p-0", "n2"), bind("p-1", "n1")]


def test_preferred_labels_draw_pods() -> None:
    """The weight of the terms that match outweighs what is used."""
    picture = """
        node  n1 cpu=8 label=zone=a   node n2 cpu=8 label=zone=b   node n3 cpu=8
        queue q
        job   q/old n2*4
        job   q/new prefer=zone=b:80 prefer=zone=a:20 -
        """
    assert decide(picture, "allocate", TIERS) == [bind("new-0", "n2")]


def test_weights_turn_spreading_into_packing() -> None:
    """With mostrequested above leastrequested, nodes fill up."""
    picture = """
        node  n1 cpu=8   node n2 cpu=8
        queue q
        job   q/old n2
        job   q/new -
        """
    packing = f"{TIERS}:leastrequested.weight=0,mostrequested.weight=1"
    assert decide(picture, "allocate", TIERS) == [bind("new-0", "n1")]
    assert decide(picture, "allocate", packing) == [bind("new-0", "n2")]
