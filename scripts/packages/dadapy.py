"""DADApy: TwoNN and its generalisation, Gride."""

from dadapy import Data

REQUIREMENTS = ("dadapy==0.3.4", "numpy==1.26.4")

QUANTITIES = {
    "twonn": lambda z: Data(coordinates=z, maxk=3).compute_id_2NN()[0],
    "twonn:ml": lambda z: Data(coordinates=z, maxk=3).compute_id_2NN(algorithm="ml")[0],
    "twonn:Gride": lambda z: Data(coordinates=z, maxk=20).return_id_scaling_gride(range_max=16)[0][-1],
}
