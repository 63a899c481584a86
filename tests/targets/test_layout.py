import pytest
import torch

from ggmc.errors import BadInput
from ggmc.targets.layout import Layout

SPACE = Layout({"weight": (2, 3), "bias": (2,), "scale": ()})


def test_views_are_views_both_ways() -> None:
    flat = torch.zeros(4, SPACE.size)
    views = SPACE.views(flat)
    assert {name: tuple(view.shape) for name, view in views.items()} == {
        "weight": (4, 2, 3),
        "bias": (4, 2),
        "scale": (4,),
    }
    views["weight"][2, 1, 0] = 5.0
    assert flat[2, 3] == 5.0
    flat[3, -1] = 7.0
    assert views["scale"][3] == 7.0
    assert all(view.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr() for view in views.values())


def test_flatten_undoes_views() -> None:
    for shape in ((SPACE.size,), (4, SPACE.size), (2, 5, SPACE.size)):
        flat = torch.randn(shape)
        assert torch.equal(SPACE.flatten(SPACE.views(flat)), flat)


def test_gradients_flow_through_views() -> None:
    flat = torch.randn(3, SPACE.size, requires_grad=True)
    SPACE.views(flat)["bias"].sum().backward()
    assert flat.grad is not None
    assert torch.equal(SPACE.views(flat.grad)["bias"], torch.ones(3, 2))
    assert flat.grad.sum() == 6


def test_locate_names_every_column() -> None:
    names = [SPACE.locate(i) for i in range(SPACE.size)]
    assert names == [f"weight[{i}, {j}]" for i in range(2) for j in range(3)] + ["bias[0]", "bias[1]", "scale"]


def test_flatten_refuses_wrong_names_and_shapes() -> None:
    with pytest.raises(BadInput, match="expected the tensors"):
        SPACE.flatten({"weight": torch.zeros(2, 3)})
    with pytest.raises(BadInput, match=r"bias must end in shape \(2,\), got \(3,\)"):
        SPACE.flatten({"weight": torch.zeros(2, 3), "bias": torch.zeros(3), "scale": torch.zeros(())})
