"""Plans what is done about dead nodes: who is kept off them, which pods are made again elsewhere, and what is withheld.

    verdicts + Cluster + backups + RecoveryState → plan_recovery → actions, RecoveryState

Each step is planned from what the API server shows now, so a plan that was interrupted goes on where it stopped. What a
step must remember, the spent budget above all, is in RecoveryState, which is written before anything is done.
"""
