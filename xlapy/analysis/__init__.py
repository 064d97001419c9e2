"""Facts about modules that passes and back ends share: effects, constants, loops, aliases, cost. Changes no module."""
