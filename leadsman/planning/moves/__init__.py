"""Plans how pods move to other nodes: one (`mover`), and many in an order that is safe at each step (`ordering`).

    Wishes → order_moves → MovePlan → PlanRun, by what the cluster shows now → Mover → actions

An evicted pod cannot be brought back. So the room that it goes to is held by a pod of its own before the eviction, and
everything is checked again in between. Every pod that Leadsman moves goes this way, whatever it is moved for.
"""
