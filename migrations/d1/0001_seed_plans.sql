-- The plans to begin with (spec §8: numbers not shown). `PUT /operator/plans/{id}` changes them and adds others.
INSERT INTO `plans` (`id`, `name`, `signal_limit`, `paid`) VALUES
	('free', 'Free', 1000, 0),
	('starter', 'Starter', 50000, 1),
	('growth', 'Growth', 500000, 1),
	('scale', 'Scale', 5000000, 1);
