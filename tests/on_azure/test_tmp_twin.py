from on_azure.test_orchestration import *  # noqa
from on_azure.test_orchestration import deployed  # noqa
def test_x(deployed):
    deployed.warned()
    items = [(ACT_ON_ITEM, item) for item in range(5)]
    deployed.engine.faults = {key: ["twin"] for key in items}
    report = deployed.sweep()
    for f in report["findings"]:
        print(f["account"][0], f["step"], f["outcome"], f["error"], f.get("outcome_because"))
    print(deployed.changes())
    print([r for r in report["coverage"] if r["status"]!="ok"])
    assert 0
