"""An embedded AWS: any number of accounts and regions behind one URL on 127.0.0.1.

`server` answers, `fault` breaks, `account` seeds, `fleet` seeds the demo's story. moto answers whatever is not answered here.
"""
