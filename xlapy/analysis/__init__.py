"""Facts about modules that passes and back ends share: effects, constants, loops. Changes nothing."""
