"""How many sets of a model fit, together and each template alone."""

from msgspec.structs import replace

from leadsman.planning.capacity.count import WORK, Count, count_sets
from leadsman.planning.capacity.coupling import cautions
from leadsman.planning.capacity.judged import broken
from leadsman.planning.capacity.model import CapacityModel


def count_together(model: CapacityModel, work: int = WORK) -> Count:
    """How many sets fit. A packing of templates that look at other pods counts only when it is judged pod by pod."""
    if any(model.cautions):
        return count_sets(model.problem, work, lambda packing: not broken(model, packing))
    return count_sets(model.problem, work)


def only(model: CapacityModel, template: int) -> CapacityModel:
    """The model of one template alone, one pod a set."""
    alone = replace(model.templates[template], per_set=1)
    problem, cluster = model.problem.only(template), model.situation.cluster
    return replace(
        model,
        problem=problem,
        templates=(alone,),
        refusals=(model.refusals[template],),
        cautions=(cautions(alone.pod, problem.templates[0].scopes > 0, [alone.pod], cluster, model.plan),),
    )
